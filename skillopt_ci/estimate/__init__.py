"""Estimate."""
