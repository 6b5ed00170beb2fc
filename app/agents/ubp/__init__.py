"""The Universal Bot Protocol (UBP): agents that send commands, and executors that connect and execute them.

`/ubp` is a WebSocket, `POST /ubp/commands` takes single commands, and gRPC is served on a port of its own.
"""

from fastapi import FastAPI

from app.agents.ubp.command_route import COMMANDS_ROUTE
from app.agents.ubp.grpc_start import serve_grpc
from app.agents.ubp.routes import router
from app.agents.ubp.server import ExecutorServer, open_server
from app.agents.ubp.websocket import PATH, WEBSOCKET_ROUTE, WITHOUT_UPGRADE_ROUTE

__all__ = ["COMMANDS_ROUTE", "PATH", "ExecutorServer", "install", "open_server", "serve_grpc"]


def install(app: FastAPI) -> None:
    """Add its routes, which find the server in `request.state.ubp`."""
    app.router.routes += [WEBSOCKET_ROUTE, WITHOUT_UPGRADE_ROUTE, COMMANDS_ROUTE]
    app.include_router(router)
