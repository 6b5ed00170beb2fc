"""Arguments of a tool -> one HTTP request: paths, queries, headers, cookies and bodies."""
