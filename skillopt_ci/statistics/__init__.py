"""Statistics of noisy comparisons: pure functions of numbers, nothing of training."""
