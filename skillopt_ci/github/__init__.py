"""GitHub through PyGithub: pull request, comments, checks, review notes, commits.

A function named "keep" is an upsert: it is idempotent, two jobs may call it at the same time, and
it writes nothing that is already there. Every function raises only `client.Refused` (a permission,
a setting, a locked conversation: the message says what to grant) or `client.Unavailable` (network,
rate limit, server).
"""
