"""Skillopt."""
