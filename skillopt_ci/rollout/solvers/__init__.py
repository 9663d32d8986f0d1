"""Who works on tasks with a computer: the built-in agent, others' agents, scripts, people."""
