"""What pages show, as values for templates: rows, charts, snippets and texts."""
