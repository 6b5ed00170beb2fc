"""`/toolsets`: manages toolsets, and serves their manuals, searches and calls."""

from fastapi import FastAPI


def install(app: FastAPI) -> None:
    """Add its routes."""
    del app
