"""The listening socket of `serve`: bound before anything else starts, so that a busy port fails at once."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from app.cli.errors import OperatorError

Listener = socket.socket


@contextmanager
def listen_on(host: str, port: int) -> Iterator[Listener]:
    """Yield a bound TCP socket for worker processes; raise OperatorError where its port is busy."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        reason = error.strerror or type(error).__name__
        raise OperatorError(
            f"Cannot listen on {host} port {port}: {reason}. Choose another with --port or PORT."
        ) from None
    with listener:
        yield listener
