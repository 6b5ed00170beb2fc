"""Calls with an idempotency key: executed once, and their outcomes stored."""
