"""Gates: how a candidate is compared with the current skill, and at what expense."""
