"""`tcp` and `udp`: a port of loopback for each case."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import orjson

from tests.protocols.kits.base import HUGE, Kit, Template, Upstream, free_port
from tests.protocols.peers.tcp import tcp_server
from tests.protocols.peers.udp import is_bound, udp_server

CASES = ("echo", "silent", "breaks", "huge", "stream", "endless", "utcp")
MESSAGE = (
    "{"
    + ", ".join(f'"{name}": UTCP_ARG_{name}_UTCP_ARG' for name in ("word", "number", "yes", "list", "deep"))
    + "}"
)


class SocketKit(Kit):
    places = ("/request_data_template",)

    def template(self, upstream: Upstream, case: str) -> Template:
        return {
            "call_template_type": self.protocol, "host": "127.0.0.1", "port": self.port(upstream, case),
            "request_data_format": "text", "request_data_template": MESSAGE, "timeout": 20_000,
        }  # fmt: skip

    def port(self, upstream: Upstream, case: str) -> int:
        return upstream.place[case]

    def discovery(self, upstream: Upstream) -> Template:
        return self.template(upstream, "utcp") | {"request_data_format": "json"}

    def addresses(self, text: str) -> list[Template]:
        return [{"call_template_type": self.protocol, "host": text, "port": 4711}]

    def found(self, seen: dict[str, str], place: str) -> str | None:
        return seen["message"]

    def manual(self, upstream: Upstream) -> bytes:
        tool = {"name": "echo", "description": "", "tool_call_template": self.template(upstream, "echo")}
        return orjson.dumps({"utcp_version": "1.0.1", "manual_version": "1.0.0", "tools": [tool]})


class TcpKit(SocketKit):
    protocol = "tcp"
    peer_members = frozenset({"framing_strategy"})
    cases = Kit.cases - {"rejects"}

    def template(self, upstream: Upstream, case: str) -> Template:
        framing = "stream" if case in ("stream", "endless") else "length_prefix"
        more = {"framing_strategy": framing, "max_response_size": 1 << 30}
        return super().template(upstream, case) | more

    def port(self, upstream: Upstream, case: str) -> int:
        return free_port() if case == "unreachable" else super().port(upstream, case)

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[Upstream]:
        upstream = Upstream({})
        async with contextlib.AsyncExitStack() as stack:
            for case in CASES:
                server = tcp_server(self._handler(upstream, case))
                upstream.place[case] = await stack.enter_async_context(server)
            yield upstream

    def _handler(self, upstream: Upstream, case: str) -> Callable[..., Any]:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await self._answer(upstream, case, reader, writer)
            except (ConnectionError, asyncio.CancelledError, asyncio.IncompleteReadError):
                upstream.gone.set()
                raise

        return handle

    async def _answer(self, upstream: Upstream, case: str, reader: Any, writer: Any) -> None:
        if case in ("stream", "endless"):
            await reader.readuntil(b"}")
            for n in range(3) if case == "stream" else iter(int, 1):
                padding = "" if case == "stream" else "x" * 4096
                number = n if case == "stream" else upstream.sent
                writer.write(orjson.dumps({"n": number, "p": padding}) + b"\n")
                await writer.drain()
                upstream.sent += 1
                await asyncio.sleep(0.05 if case == "stream" else 0)
            return
        message = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
        upstream.seen.append({"message": message.decode()})
        if case == "silent":
            await reader.readexactly(1)
        answer = {"huge": b"x" * HUGE, "utcp": self.manual(upstream)}.get(case, message)
        if case == "utcp" and message != b'{"type": "utcp"}':
            answer = b"what?"
        writer.write(len(answer).to_bytes(4, "big") + answer[: 3 if case == "breaks" else None])
        await writer.drain()
        if case == "breaks":
            writer.transport.abort()


class UdpKit(SocketKit):
    protocol = "udp"
    cases = frozenset({"echo", "silent", "huge", "stream", "unreachable"})

    def template(self, upstream: Upstream, case: str) -> Template:
        count = {"stream": 3, "huge": HUGE // 50_000}.get(case, 1)
        return super().template(upstream, case) | {"number_of_response_datagrams": count}

    def port(self, upstream: Upstream, case: str) -> int:
        return free_port(socket.SOCK_DGRAM) if case == "unreachable" else super().port(upstream, case)

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[Upstream]:
        upstream = Upstream({})
        async with contextlib.AsyncExitStack() as stack:
            for case in CASES:
                answering = udp_server(self._answering(upstream, case))
                upstream.place[case] = await stack.enter_async_context(answering)
            yield upstream

    def _answering(self, upstream: Upstream, case: str) -> Callable[..., Any]:
        async def answer(message: bytes, reply: Callable[[bytes], None], peer: tuple[str, int]) -> None:
            upstream.seen.append({"message": message.decode()})
            match case:
                case "echo":
                    reply(message)
                case "utcp":
                    reply(self.manual(upstream) if message == b'{"type": "utcp"}' else b"what?")
                case "stream":
                    for n in range(3):
                        reply(b'{"n": %d}\n' % n)
                        await asyncio.sleep(0.05)
                case "huge":
                    for _ in range(HUGE // 50_000):
                        reply(b"x" * 50_000)
                        await asyncio.sleep(0.002)
                case "silent":
                    while is_bound(peer):  # noqa: ASYNC110 - the kernel has no event for it.
                        await asyncio.sleep(0.02)
                    upstream.gone.set()

        return answer
