"""Formats without I/O: JSON Schema, XML, UTCP, UBP, ToolClad, archives, and the dialects of models."""
