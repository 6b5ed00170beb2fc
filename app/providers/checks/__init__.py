"""Checks of providers: whether their origins and credentials work, and the health of all."""
