"""The streams of events that agents write, one module for each; facts and sources: docs/agents.md.

Every reader takes what it knows from a stream and passes over the rest, so that an event of a newer
version costs nothing.
"""
