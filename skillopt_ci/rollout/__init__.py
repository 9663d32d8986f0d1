"""Rollouts: the target model works on tasks with a skill, and each attempt is scored."""
