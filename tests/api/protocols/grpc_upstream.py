"""A gRPC server in a process of its own: grpcio's servers with and without asyncio cannot share one."""

import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha import reflection

from app.protocols.grpc.descriptors import build_pool
from tests.protocols.kits.grpc import SERVICE, contract_file


class GrpcUpstream:
    """A running server of `contract.v1.Contract`, which requires the secret as `x-key`."""

    def __init__(self, port: int, seen: Any) -> None:
        self.port = port
        self._seen = seen

    def seen(self) -> dict[str, str]:
        """Return the metadata of the last call."""
        return dict(self._seen[-1])


@contextmanager
def grpc_upstream(secret: str) -> Iterator[GrpcUpstream]:
    """Run the server until the block ends."""
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager:
        seen = manager.list()
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, seen, secret), daemon=True)
        process.start()
        theirs.close()
        try:
            yield GrpcUpstream(ours.recv(), seen)
        finally:
            ours.close()
            process.join(10)
            process.kill()
            process.join()
            process.close()


def _serve(pipe: Any, seen: Any, secret: str) -> None:
    pool = build_pool({"contract.proto": contract_file()})
    word = GetMessageClass(pool.FindMessageTypeByName("contract.v1.Word"))

    def authenticate(context: Any) -> None:
        metadata = {key: str(value) for key, value in context.invocation_metadata()}
        seen.append(metadata)
        if metadata.get("x-key") != secret:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, f"not {metadata.get('x-key')}")

    def echo(request: bytes, context: Any) -> bytes:
        authenticate(context)
        return request

    def stream(request: bytes, context: Any) -> Iterator[bytes]:
        authenticate(context)
        for n in range(3):
            yield word(n=n).SerializeToString()
            time.sleep(0.05)

    methods = {
        "Echo": grpc.unary_unary_rpc_method_handler(echo),
        "Stream": grpc.unary_stream_rpc_method_handler(stream),
    }
    running = grpc.server(ThreadPoolExecutor(4))
    running.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, methods),))
    reflection.enable_server_reflection((SERVICE, reflection.SERVICE_NAME), running, pool=pool)
    pipe.send(running.add_insecure_port("127.0.0.1:0"))
    running.start()
    # Wait until the test closes its end.
    pipe.poll(None)
    running.stop(None).wait(5)
