"""The noisy world: hidden rules, tasks, a target and an optimizer that speak over HTTP."""
