from environments import opened  # noqa: F401
