"""Arguments of a tool -> one HTTP request: path, query, headers, cookies and body."""
