"""Recordings: what upstreams have given to calls, stored, replayed, exported and imported."""
