"""Schemas of a document as JSON Schema 2020-12."""
