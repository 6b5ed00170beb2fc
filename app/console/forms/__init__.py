"""Forms of pages: their fields, and the requests of the API that they make."""
