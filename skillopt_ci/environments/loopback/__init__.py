"""The run's own models behind OpenAI's protocol on the loopback interface.

A program of someone else's asks there as it would ask a server, and is answered by the run's
client: cached, metered, held to the budgets. It never sees a key of the user's.
"""
