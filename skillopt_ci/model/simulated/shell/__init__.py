"""The second simulated world: orders for small shell scripts, worked on with tools."""
