"""`POST /tools/{name}/call`: reads the request and writes the response (JSON, bytes or events)."""
