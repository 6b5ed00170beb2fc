"""Fault injection: which guarantees hold while servers, links and processes fail (`python -m tests.faults`)."""
