"""Benchmarks of skillopt-ci against SkillOpt and GEPA on a simulated, noisy world."""
