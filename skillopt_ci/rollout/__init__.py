"""Rollouts: the target model works on tasks under a skill, and each attempt gets an outcome."""
