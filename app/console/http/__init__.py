"""Requests and responses of the console: its routes, and its client of the API in the same process."""
