"""GitHub through PyGithub: pull request, comment, check, review notes, commits.

What the rest of the program sees is `forge`; PyGithub's own types stay in this folder.
"""
