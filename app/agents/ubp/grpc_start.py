"""Starting gRPC where it is configured: grpcio is an extra, and its import takes a tenth of a second."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from app.agents.ubp.server import ExecutorServer
from app.core.errors import Unavailable


@asynccontextmanager
async def serve_grpc(server: ExecutorServer) -> AsyncIterator[None]:
    """Serve gRPC during the block, where UBP_GRPC_PORT is set.

    Raise Unavailable where grpcio is not installed, or the port or the certificate cannot be used.
    """
    if not server.services.settings.ubp_grpc_port:
        yield
        return
    try:
        from app.agents.ubp.grpc_server import GrpcServer  # noqa: PLC0415
    except ImportError:
        raise Unavailable("UBP_GRPC_PORT needs grpcio: install utcp-gateway[grpc].") from None
    running = GrpcServer(server)
    await running.start()
    try:
        yield
    finally:
        await running.aclose()
