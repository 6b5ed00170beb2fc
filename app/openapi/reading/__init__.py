"""Reading a document: encodings, files, overlays and references."""
