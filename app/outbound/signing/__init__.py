"""Credentials that depend on the whole request: AWS Signature Version 4, HMAC signatures, HTTP Digest."""
