"""The trainer: plan · rollout · reflect · aggregate · select · update · evaluate · decide."""
