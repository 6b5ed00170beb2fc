"""JSON Schema 2020-12: normalising the schemas of tools, validating arguments, explaining what fails."""
