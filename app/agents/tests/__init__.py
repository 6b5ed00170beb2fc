"""Agent tests: a model gets a task and tools, and what it responds and calls is compared with assertions."""
