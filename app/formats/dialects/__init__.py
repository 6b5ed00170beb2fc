"""Schemas of tools for the clients of models: valid for every client, and in their dialects."""
