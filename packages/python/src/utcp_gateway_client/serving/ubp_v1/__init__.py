"""The messages of package `ubp.v1`, written by `make ubp-messages` of the gateway from its .proto files."""
