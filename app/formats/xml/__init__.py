"""XML: how JSON values are written as documents, and read from them, by the XML Objects of OpenAPI."""
