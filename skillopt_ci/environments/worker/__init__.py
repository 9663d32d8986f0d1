"""Other people's evaluation code, run in processes of its own.

One process loads it once; each attempt is a fork of that process. So attempts run side by side
even where the code allows one evaluation per process, cannot change each other's state or ours,
and can really be ended. The process sees of the environment only what it is allowed to.
"""
