"""Attempts made by a Ray cluster (https://docs.ray.io)."""
