"""For each protocol, an upstream that notes how many messages it gets and where each begins and ends, and the
call templates with an argument in every place that an argument can have.

What is noted is what an independent parser of the protocol reads (h11, `email`, `websockets`, grpc, aiortc).
"""

import asyncio
import contextlib
import email.parser
import email.policy
import json
import shlex
import shutil
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, NamedTuple
from urllib.parse import parse_qsl

import h11
import orjson
from websockets.asyncio.server import ServerConnection

from app.formats.ubp.model import Command, Message
from app.formats.ubp.values import read_value
from tests.protocols.kits.base import Template, Upstream
from tests.protocols.kits.grpc import GrpcKit
from tests.protocols.kits.local import ROOT, PostgresKit
from tests.protocols.kits.streams import FOLDER
from tests.protocols.kits.ubp import COMMANDS, EXECUTOR, KitExecutor
from tests.protocols.kits.webrtc import WebrtcKit
from tests.protocols.mcp_lines import CALLS, rpc_answer
from tests.protocols.peers.postgres import postgres_port
from tests.protocols.peers.tcp import tcp_server
from tests.protocols.peers.udp import udp_server
from tests.protocols.peers.websocket import websocket_server


class Place(NamedTuple):
    """A place of the argument `word`: the call template, and the arguments with a text in that place."""

    template: Template
    arguments: Callable[[str], dict[str, Any]] = lambda word: {"word": word, "other": 1}


class Witness(ABC):
    """An upstream of one protocol."""

    protocol: ClassVar[str]

    def __init__(self) -> None:
        self.notes: list[Any] = []
        """The shape of each message, in their order."""
        self.places: list[Place] = []

    @abstractmethod
    def serve(self, folder: Path) -> contextlib.AbstractAsyncContextManager[None]:
        """Runs the upstream, and fills `places`; `folder` is empty."""

    async def noted(self) -> list[Any]:
        """The messages since the last time, once there is one; nothing more comes of a call then."""
        async with asyncio.timeout(20):
            while not self.notes:  # noqa: ASYNC110 - other processes set no event.
                await asyncio.sleep(0.001)
        found, self.notes = self.notes, []
        return found


def lines(text: str) -> tuple[str, int]:
    """The shape of a text: what any reader of lines or of NUL-ended texts takes for separate messages."""
    return "lines", len(text.replace("\x00", "\n").splitlines()) or 1


def structure(value: Any) -> Any:
    """The shape of a JSON value: its members, and what kind each is."""
    if isinstance(value, dict):
        return {key: structure(member) for key, member in value.items()}
    if isinstance(value, list):
        return [structure(member) for member in value]
    return type(value).__name__


class _OverHttp(Witness):
    """Notes each request on a connection; whatever follows one there is another request."""

    media = "application/json"

    @contextlib.asynccontextmanager
    async def serve(self, folder: Path) -> AsyncIterator[None]:
        async with tcp_server(self._handle) as port:
            self.places = list(self.at(f"http://127.0.0.1:{port}"))
            yield

    @abstractmethod
    def at(self, base: str) -> Iterator[Place]:
        """The places of an upstream at a URL."""

    def answer(self, body: bytes) -> bytes:
        """What a request with this body is answered with."""
        return b"{}"

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = h11.Connection(h11.SERVER)
        request, body = None, b""
        while True:
            try:
                event = connection.next_event()
            except h11.RemoteProtocolError as error:
                self.notes.append(("malformed", str(error)))
                return
            match event:
                case h11.NEED_DATA:
                    connection.receive_data(await reader.read(65536))
                case h11.Request():
                    request, body = event, b""
                case h11.Data():
                    body += bytes(event.data)
                case h11.EndOfMessage():
                    answer = self.answer(body)
                    self.note(request, body)
                    headers = [("Content-Type", self.media), ("Content-Length", str(len(answer)))]
                    writer.write(connection.send(h11.Response(status_code=200, headers=headers)) or b"")
                    writer.write(connection.send(h11.Data(data=answer)) or b"")
                    writer.write(connection.send(h11.EndOfMessage()) or b"")
                    await writer.drain()
                    connection.start_next_cycle()
                case _:
                    return

    def note(self, request: Any, body: bytes) -> None:
        """The shape of a request: segments of its path, names in its query, headers, cookies, parts."""
        target = request.target.decode()
        path, _, query = target.partition("?")
        headers = [(name.decode().lower(), value.decode()) for name, value in request.headers]
        given = dict(headers)
        self.notes.append({
            "method": request.method, "segments": path.count("/"),
            "query": [name for name, _ in parse_qsl(query, keep_blank_values=True)], "fragment": "#" in target,
            "headers": sorted(name for name, _ in headers),
            "cookies": [pair.partition("=")[0] for pair in given.get("cookie", "").split("; ")],
            "body": _body_shape(given.get("content-type", ""), body),
        })  # fmt: skip


def _body_shape(media: str, body: bytes) -> Any:
    if media.startswith("multipart/"):
        parser = email.parser.BytesParser(policy=email.policy.HTTP)
        message = parser.parsebytes(b"Content-Type: " + media.encode() + b"\r\n\r\n" + body)
        return [
            (
                sorted(name.lower() for name in part),
                part.get_param("name", header="content-disposition"),
                # Nothing of a head may have become content.
                part.get_payload(decode=True) if part.get_filename() is not None else None,
            )
            for part in message.iter_parts()
        ]
    if media.startswith("application/x-www-form-urlencoded"):
        return [name for name, _ in parse_qsl(body.decode(), keep_blank_values=True)]
    return structure(orjson.loads(body)) if "json" in media and body else None


def _url_places(protocol: str, base: str, **more: Any) -> Iterator[Place]:
    """What all protocols over HTTP have."""
    fields = {"call_template_type": protocol, "url": f"{base}/a", **more}
    yield Place({**fields, "url": f"{base}/a/{{word}}/b?c={{word}}&d=1"})
    yield Place({**fields, "header_fields": ["word"]})
    yield Place(fields)


class HttpWitness(_OverHttp):
    protocol = "http"

    def at(self, base: str) -> Iterator[Place]:
        yield from _url_places("http", base)
        fields = {"call_template_type": "http", "url": f"{base}/a", "http_method": "POST"}
        body = {"word": lambda word: {"body": {"word": word}}, "text": lambda word: {"body": word}}
        yield Place({**fields}, body["word"])
        yield Place({**fields, "content_type": "text/plain"}, body["text"])
        yield Place({**fields, "content_type": "application/x-www-form-urlencoded"}, body["word"])
        yield Place({**fields, "content_type": "multipart/form-data"}, body["word"])
        declared = {**fields, "parameters": [], "body": {"content_type": "multipart/form-data"}}
        # A file's name and type are arguments, too.
        file = {**declared, "body": {**declared["body"], "encoding": {"f": {"content_type": "image/png"}}}}
        yield Place(file, lambda word: {"body": {"f": {"data": "AAAA", "filename": word}}})
        yield Place(file, lambda word: {"body": {"f": {"data": "AAAA", "content_type": "a/b" + word}}})
        yield Place(file, lambda word: {"body": {"f": {"data": "AAAA", "content_type": f"a/b{word};x"}}})
        for location, style in (
            ("cookie", "form"), ("header", "simple"), ("query", "pipeDelimited"), ("query", "deepObject"),
        ):  # fmt: skip
            parameter = {"input": "word", "name": "word", "in": location, "style": style}
            template = {**fields, "http_method": "GET", "parameters": [parameter]}
            yield Place(template, lambda word: {"word": word})
            yield Place(template, lambda word: {"word": {"k": word}})
            yield Place(template, lambda word: {"word": [word, "b"]})


class SseWitness(_OverHttp):
    protocol = "sse"
    media = "text/event-stream"

    def answer(self, body: bytes) -> bytes:
        return b"data: 1\n\n"

    def at(self, base: str) -> Iterator[Place]:
        yield from _url_places("sse", base, reconnect=False)
        template = {"call_template_type": "sse", "url": base, "body_field": "body"}
        yield Place(template, lambda word: {"body": {"word": word}})


class StreamableHttpWitness(_OverHttp):
    protocol = "streamable_http"

    def at(self, base: str) -> Iterator[Place]:
        yield from _url_places("streamable_http", base)
        template = {"call_template_type": "streamable_http", "url": base, "http_method": "POST"}
        yield Place({**template, "body_field": "body"}, lambda word: {"body": {"word": word}})


class GraphqlWitness(_OverHttp):
    protocol = "graphql"

    def answer(self, body: bytes) -> bytes:
        return b'{"data": {"echo": 1}}'

    def note(self, request: Any, body: bytes) -> None:
        super().note(request, body)
        # The document is the template's, whatever the arguments are.
        self.notes[-1]["document"] = orjson.loads(body)["query"]

    def at(self, base: str) -> Iterator[Place]:
        query = "query E($word: String, $other: Int) { echo(word: $word, other: $other) }"
        yield from _url_places("graphql", base, query=query)
        yield from _url_places("graphql", base, operation_name="echo", operation_type="query")


class McpWitness(_OverHttp):
    """Over HTTP and over the standard input of a program, whose messages are lines."""

    protocol = "mcp"

    @contextlib.asynccontextmanager
    async def serve(self, folder: Path) -> AsyncIterator[None]:
        self._lines = folder / "lines"
        program = [
            sys.executable,
            "-I",
            "-S",
            str(Path(__file__).with_name("mcp_lines.py")),
            str(self._lines),
        ]
        async with super().serve(folder):
            server = {"transport": "stdio", "command": program[0], "args": program[1:]}
            self.places += self._of(server)
            yield

    def at(self, base: str) -> Iterator[Place]:
        yield from self._of({"transport": "http", "url": f"{base}/mcp"})

    def _of(self, server: dict[str, Any]) -> Iterator[Place]:
        config = {"mcpServers": {"kit": server}}
        yield Place({"call_template_type": "mcp", "tool_name": "echo", "config": config})
        yield Place({"call_template_type": "mcp", "resource_uri": "kit://of/{word}", "config": config})

    def answer(self, body: bytes) -> bytes:
        answer = rpc_answer(orjson.loads(body)) if body else None
        return b"" if answer is None else orjson.dumps(answer)

    def note(self, request: Any, body: bytes) -> None:
        # A session begins with other messages, and may end with one.
        if not body or orjson.loads(body).get("method") in CALLS:
            super().note(request, body)

    async def noted(self) -> list[Any]:
        async with asyncio.timeout(20):
            while not self.notes and not (self._lines.exists() and self._lines.read_bytes()):  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        if self._lines.exists():
            for line in self._lines.read_bytes().splitlines():
                message = orjson.loads(line)
                self.notes.append(structure(message) if isinstance(message, dict) else message)
            self._lines.write_bytes(b"")
        return await super().noted()


class TextWitness(Witness):
    """The answer is the content; nobody else hears of the arguments."""

    protocol = "text"

    @contextlib.asynccontextmanager
    async def serve(self, folder: Path) -> AsyncIterator[None]:
        self.places = [Place({"call_template_type": "text", "content": "the same UTCP_ARG_word_UTCP_ARG"})]
        yield

    async def noted(self) -> list[Any]:
        return ["nothing is sent"]


class FileWitness(TextWitness):
    protocol = "file"

    @contextlib.asynccontextmanager
    async def serve(self, folder: Path) -> AsyncIterator[None]:
        (FOLDER / "UTCP_ARG_word_UTCP_ARG").write_text("the same")
        path = str(FOLDER / "UTCP_ARG_word_UTCP_ARG")
        self.places = [Place({"call_template_type": "file", "file_path": path})]
        yield


class FilesystemWitness(Witness):
    """Notes the files that there are: one, whatever its content is."""

    protocol = "filesystem"

    @contextlib.asynccontextmanager
    async def serve(self, folder: Path) -> AsyncIterator[None]:
        self._folder = Path(tempfile.mkdtemp(dir=ROOT))
        template = {"call_template_type": "filesystem", "operation": "write", "root": str(self._folder)}
        self.places = [Place(template, lambda word: {"path": "file", "content": word})]
        yield
        shutil.rmtree(self._folder)

    async def noted(self) -> list[Any]:
        self.notes.append(sorted(one.name for one in self._folder.rglob("*")))
        return await super().noted()


class PostgresWitness(Witness):
    """Notes the types of the messages on each connection, by their lengths."""

    protocol = "postgres"

    @contextlib.asynccontextmanager
    async def serve(self, folder: Path) -> AsyncIterator[None]:
        kit = PostgresKit()
        async with kit.serve() as upstream:

            def note(sent: bytes) -> None:
                self.notes.append(message_types(sent))

            async with postgres_port(kit.dsn, note=note) as port:
                template = {**kit.template(upstream, "echo"), "port": port}
                self.places = [Place(template, lambda word: {"query": f"SELECT answer(), $q${word}$q$"})]
                yield


def message_types(sent: bytes) -> str:
    """The types of the messages of a client of PostgreSQL after its first one, which has none."""
    at, types = int.from_bytes(sent[:4], "big"), ""
    while at < len(sent):
        types += chr(sent[at])
        at += 1 + int.from_bytes(sent[at + 1 : at + 5], "big")
    return types


MESSAGES = ("GET UTCP_ARG_word_UTCP_ARG now", "UTCP_ARG_word_UTCP_ARG", None, '{"word": "UTCP_ARG_word_UTCP_ARG"}',
            '{"w": UTCP_ARG_word_UTCP_ARG}', "A\rUTCP_ARG_word_UTCP_ARG\nB\r\nUTCP_ARG_other_UTCP_ARG")  # fmt: skip


def _messages(template: Template) -> Iterator[Template]:
    """Every way in which arguments become a message."""
    yield {**template, "request_data_format": "json"}
    for message in MESSAGES:
        yield {**template, "request_data_format": "text", "request_data_template": message}


def is_json(template: Template) -> bool:
    """Whether what it sends is JSON, whatever the arguments are."""
    given = template["request_data_format"] == "json" or template["request_data_template"]
    return given is True or str(given).startswith("{")


class TcpWitness(Witness):
    """Each framing at a port of its own. All that came on a connection is cut into messages at its end."""

    protocol = "tcp"
    framings: ClassVar[dict[str, tuple[dict[str, Any], bytes]]] = {
        "stream": ({"framing_strategy": "stream"}, b"ok"),
        "prefix": ({"framing_strategy": "length_prefix", "length_prefix_bytes": 2}, b"\x00\x02ok"),
        "fixed": ({"framing_strategy": "fixed_length", "fixed_message_length": 64}, b"k" * 64),
        "fixed, JSON": ({"framing_strategy": "fixed_length", "fixed_message_length": 64}, b"k" * 64),
        **{
            f"delimiter {delimiter!r}": (
                {"framing_strategy": "delimiter", "message_delimiter": text}, b"ok" + delimiter,
            )
            for text, delimiter in (
                ("\\x00", b"\x00"), ("\\n", b"\n"), ("\\r\\n", b"\r\n"), ("END", b"END"), ("aa", b"aa"), ("|", b"|"),
                ("}}", b"}}"), ('"', b'"'),
            )
        },
    }  # fmt: skip

    @contextlib.asynccontextmanager
    async def serve(self, folder: Path) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            for name, (fields, answer) in self.framings.items():
                port = await stack.enter_async_context(tcp_server(self._handler(name, fields, answer)))
                template = {"call_template_type": "tcp", "host": "127.0.0.1", "port": port, **fields}
                # JSON says itself where it ends; whether a text is meant as JSON, it does not say.
                self.places += (
                    Place(message)
                    for message in _messages(template)
                    if "fixed" not in name or ("JSON" in name) is is_json(message)
                )
            yield

    def _handler(self, name: str, fields: dict[str, Any], answer: bytes) -> Callable[..., Any]:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            raw = await reader.read(65536)
            writer.write(answer)
            writer.write_eof()
            with contextlib.suppress(ConnectionError):
                raw += await reader.read()
            self.notes.append((name, self._cut(name, fields, raw)))

        return handle

    def _cut(self, name: str, fields: dict[str, Any], raw: bytes) -> Any:
        match fields["framing_strategy"]:
            case "length_prefix":
                length = int.from_bytes(raw[:2], "big")
                return len(raw) == 2 + length
            case "fixed_length" if "JSON" not in name:
                return -(-len(raw) // 64), lines(raw.decode())
            case "delimiter":
                delimiter = fields["message_delimiter"].encode().decode("unicode_escape").encode()
                ended = raw.split(delimiter)
                controls = delimiter in (b"\n", b"\r\n")
                return len(ended), ended[-1], lines(raw.decode()) if controls else None
        return lines(raw.decode())


class UdpWitness(Witness):
    protocol = "udp"

    @contextlib.asynccontextmanager
    async def serve(self, folder: Path) -> AsyncIterator[None]:
        async def answer(message: bytes, reply: Callable[[bytes], None], peer: Any) -> None:
            self.notes.append(lines(message.decode()))
            reply(b"ok")

        async with udp_server(answer) as port:
            template = {"call_template_type": "udp", "host": "127.0.0.1", "port": port}
            self.places = [Place(message) for message in _messages(template)]
            yield


class WebsocketWitness(Witness):
    protocol = "websocket"

    @contextlib.asynccontextmanager
    async def serve(self, folder: Path) -> AsyncIterator[None]:
        async def handle(connection: ServerConnection) -> None:
            request = connection.request
            assert request is not None
            names = sorted(name.lower() for name, _ in request.headers.raw_items())
            path, _, query = request.path.partition("?")
            query_names = [name for name, _ in parse_qsl(query, keep_blank_values=True)]
            received: list[Any] = []
            async for message in connection:
                text = message if isinstance(message, str) else message.decode()
                received.append(structure(json.loads(text)) if "/json" in path else lines(text))
                await connection.send("ok")
            self.notes.append((names, path.count("/"), query_names, received))

        async with websocket_server(handle) as url:
            template = {"call_template_type": "websocket", "url": f"{url}/json"}
            self.places = [
                Place({**template, "url": f"{url}/json/{{word}}?b={{word}}"}),
                Place({**template, "header_fields": ["word"]}),
                *(
                    Place({**template, "url": f"{url}/{kind}", "message": message})
                    for message in MESSAGES
                    for kind in ("json" if message is None or message.startswith("{") else "text",)
                ),
                Place(
                    {
                        **template,
                        "message": {"word": "UTCP_ARG_word_UTCP_ARG", "a": "b UTCP_ARG_word_UTCP_ARG"},
                    }
                ),
            ]
            yield


_WORDS = """
import json, os, sys
with open(sys.argv[1], "a") as file:
    file.write(json.dumps([sys.argv[2:], sorted(set(os.environ) - {"LC_CTYPE"}), sys.stdin.read()]) + "\\n")
print("ok" if "quiet" in sys.argv else sys.argv[-1])
"""


class CliWitness(Witness):
    """A message is a command: its words, its environment and its standard input."""

    protocol = "cli"

    @contextlib.asynccontextmanager
    async def serve(self, folder: Path) -> AsyncIterator[None]:
        script = folder / "words.py"
        script.write_text(_WORDS)
        self._seen = folder / "seen"
        command = f"{shlex.quote(sys.executable)} -I -S {script} {self._seen}"
        placed = "UTCP_ARG_word_UTCP_END"
        commands = [
            [f"{command} {placed} end"], [f"{command} quiet 'a {placed}' -- {placed}"],
            [f"{command} quiet a", f'{command} quiet x{placed} "$CMD_0_OUTPUT"'],
        ]  # fmt: skip
        self.places = [
            *(
                Place({"call_template_type": "cli", "commands": [{"command": one} for one in several]})
                for several in commands
            ),
            Place({"call_template_type": "cli", "command_name": command}, lambda word: {"word": word}),
        ]
        yield

    async def noted(self) -> list[Any]:
        found = [json.loads(line) for line in self._seen.read_text().splitlines()]
        self._seen.unlink()
        # `--word=-x` is one word for the two of `--word x`.
        return [
            (sum(1 if word.startswith("--word=") else 0 for word in words) + len(words), names, given)
            if any(word.startswith("--word") for word in words)
            else (len(words), names, given)
            for words, names, given in found
        ]


class GrpcWitness(Witness):
    protocol = "grpc"

    @contextlib.asynccontextmanager
    async def serve(self, folder: Path) -> AsyncIterator[None]:
        kit = GrpcKit()
        async with kit.serve() as self._upstream:
            template = {**kit.template(self._upstream, "echo"), "headers": {"x-fixed": "1"}}
            self.places = [
                Place(template, lambda word: {"word": word}),
                Place(template, lambda word: {"word": "a", "list": [word], "deep": {word: word}}),
            ]
            yield

    async def noted(self) -> list[Any]:
        self.notes += (sorted(names) for names in self._upstream.seen)
        self._upstream.seen.clear()
        return await super().noted()


class WebrtcWitness(Witness):
    protocol = "webrtc"

    @contextlib.asynccontextmanager
    async def serve(self, folder: Path) -> AsyncIterator[None]:
        notes = self

        class Noting(WebrtcKit):
            async def _answer(
                self, message: dict[str, Any], channel: Any, upstream: Upstream, side: Any
            ) -> None:
                notes.notes.append(structure(message))
                await super()._answer(message, channel, upstream, side)

        kit = Noting()
        async with kit.serve() as upstream:
            self.places = [Place(kit.template(upstream, "echo"))]
            yield


class UbpWitness(Witness):
    """Notes the arguments of each command."""

    protocol = "ubp"

    @contextlib.asynccontextmanager
    async def serve(self, folder: Path) -> AsyncIterator[None]:
        witness = self

        class Noting(KitExecutor):
            def respond(self, message: Message, command: Command) -> None:
                witness.notes.append((command.command_name, structure(read_value(command.arguments))))
                super().respond(message, command)

        executor = Noting(Upstream(EXECUTOR))
        COMMANDS.add(executor.connection)
        self.places = [
            Place({"call_template_type": "ubp", "executor": EXECUTOR, "command_name": "echo"}),
            Place(
                {"call_template_type": "ubp", "executor": EXECUTOR, "command_name": "echo"},
                lambda word: {"deep": {"list": [word, {"word": word}]}},
            ),
        ]
        try:
            yield
        finally:
            COMMANDS.remove(executor.connection)


WITNESSES: dict[str, type[Witness]] = {
    witness.protocol: witness
    for witness in (
        HttpWitness, SseWitness, StreamableHttpWitness, GraphqlWitness, McpWitness, TextWitness, FileWitness, TcpWitness,
        UdpWitness, WebsocketWitness, CliWitness, GrpcWitness, WebrtcWitness, UbpWitness, FilesystemWitness,
        PostgresWitness,
    )
}  # fmt: skip
