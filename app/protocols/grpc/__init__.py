"""UTCP 0.x's `grpc`; needs the extra `grpc`."""
