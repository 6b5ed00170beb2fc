"""JSON Schema 2020-12: normalises tools' schemas, validates arguments against them, and explains failures."""
