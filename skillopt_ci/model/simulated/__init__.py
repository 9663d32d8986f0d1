"""Simulated models: an offline, deterministic world in which a skill can really be trained.

They see nothing but chat messages, as paid models would, and every reply is a pure function of
the seed and the request's content: never of call order, time or process.
"""
