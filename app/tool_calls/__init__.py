"""`/tool-calls`: takes the tool calls of a model in any dialect, and responds with the messages to append."""

from fastapi import FastAPI


def install(app: FastAPI) -> None:
    """Add its routes."""
    del app
