"""What a call costs by each protocol, beside the plain library doing the same call."""
