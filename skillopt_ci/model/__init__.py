"""Model calls: one protocol, wrapped by retrying, caching and metering."""
