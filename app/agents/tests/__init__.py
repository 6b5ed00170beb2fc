"""`/agent-tests`: a model gets a task and tools, and assertions compare what it responds and calls."""

from fastapi import FastAPI

from app.agents.tests.routes import router
from app.agents.tests.runs import open_runs

__all__ = ["install", "open_runs"]


def install(app: FastAPI) -> None:
    """Add its routes, which find the running tests in `request.state.agent_tests`."""
    app.include_router(router)
