"""GitHub through PyGithub: pull request, comments, checks, review notes, commits.

Everything that "keeps" something is an upsert: asking twice is like asking once, two jobs may ask
at the same time, and nothing is written that is already there. Every function raises
`client.Refused` (a permission, a setting, a locked conversation: the message says what to grant)
or `client.Unavailable` (network, rate limit, server); nothing else.
"""
