"""UTCP's `udp`."""
