"""Update modes: what analysts propose, and how the next skill is made of it."""
