"""The ASGI shell: the HTTP server, admission, middleware, errors, health, metrics, API documentation."""
