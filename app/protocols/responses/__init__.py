"""Responses as JSON values: decoded by the schema of the tool, and compared with it."""
