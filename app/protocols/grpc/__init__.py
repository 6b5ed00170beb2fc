"""gRPC, with the extra `grpc`."""

from app.protocols.shared.missing import Missing, of_the_extra

try:
    from app.protocols.grpc.adapter import GrpcAdapter
except ImportError as error:
    if not of_the_extra(error, "grpc", "grpc_reflection", "google"):
        raise

    class GrpcAdapter(Missing):  # type: ignore[no-redef]
        """Without the extra."""

        name = "grpc"


__all__ = ["GrpcAdapter"]
