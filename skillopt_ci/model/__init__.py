"""Model calls: one interface, `ChatClient`, that retrying, caching and budgets wrap."""
