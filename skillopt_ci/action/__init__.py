"""The GitHub Action: from an event of the runner to a command, its outputs and what is published.

`entrypoint` is where to start reading; `activity` decides what an event asks for.
"""
