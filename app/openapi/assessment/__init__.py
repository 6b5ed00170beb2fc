"""What of a tool a model sees, what could be better about it, and what had no effect."""
