"""`/agent-tests`: run tests of models with tools, and read their results."""

from fastapi import FastAPI

from app.agent_tests.runs import open_runs
from app.agent_tests_api.routes import router

__all__ = ["install", "open_runs"]


def install(app: FastAPI) -> None:
    """Add its routes, which find the running tests in `request.state.agent_tests`."""
    app.include_router(router)
