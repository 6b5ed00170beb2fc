"""gRPC: a real server with reflection, whose descriptors are made in code."""

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
from google.protobuf import descriptor_pb2, descriptor_pool, struct_pb2
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha import reflection

from tests.protocols.kits.base import HUGE, Kit, Template, Upstream, free_port

SERVICE = "contract.v1.Contract"
F = descriptor_pb2.FieldDescriptorProto


def add_fields(message: Any, *fields: tuple[str, int, str]) -> None:
    """Fields by name, type, and type name, whose `*` stands for repeated."""
    for number, (name, kind, of) in enumerate(fields, len(message.field) + 1):
        label = F.LABEL_REPEATED if of.startswith("*") else F.LABEL_OPTIONAL
        field = message.field.add(name=name, number=number, type=kind, label=label)
        if of.removeprefix("*"):
            field.type_name = of.removeprefix("*")


def contract_file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="contract.proto", package="contract.v1", syntax="proto3")
    file.dependency.append("google/protobuf/struct.proto")
    message = file.message_type.add(name="Word")
    add_fields(
        message,
        ("word", F.TYPE_STRING, ""), ("number", F.TYPE_INT32, ""), ("yes", F.TYPE_BOOL, ""),
        ("list", F.TYPE_MESSAGE, ".google.protobuf.ListValue"),
        ("deep", F.TYPE_MESSAGE, ".google.protobuf.Struct"), ("n", F.TYPE_INT32, ""),
    )  # fmt: skip
    # `n` is there even where it is 0.
    message.oneof_decl.add(name="_n")
    message.field[5].oneof_index = 0
    message.field[5].proto3_optional = True
    service = file.service.add(name="Contract")
    for name in ("Echo", "Silent", "Breaks", "Huge", "Rejects", "Stream", "Endless"):
        service.method.add(
            name=name,
            input_type=".contract.v1.Word",
            output_type=".contract.v1.Word",
            server_streaming=name in ("Stream", "Endless"),
        )
    return file


def pool_with(*files: descriptor_pb2.FileDescriptorProto) -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(struct_pb2.DESCRIPTOR.serialized_pb)
    for file in files:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


@contextlib.asynccontextmanager
async def grpc_server(
    *handlers: Any, pool: Any = None, names: Any = (), credentials: Any = None
) -> AsyncIterator[int]:
    """A server on loopback, with reflection where it has names; gives its port."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(handlers)
    if names:
        reflection.enable_server_reflection((*names, reflection.SERVICE_NAME), server, pool=pool)
    place = "127.0.0.1:0"
    port = server.add_secure_port(place, credentials) if credentials else server.add_insecure_port(place)
    await server.start()
    try:
        yield port
    finally:
        await server.stop(None)


@contextlib.asynccontextmanager
async def relay(port: int, cut: asyncio.Event) -> AsyncIterator[int]:
    """Passes connections on to a port of loopback, and resets them once `cut` is set."""
    tasks: set[asyncio.Task[None]] = set()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner, outer = await asyncio.open_connection("127.0.0.1", port)

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError):
                while data := await source.read(65536):
                    sink.write(data)
                    await sink.drain()

        pumps = [asyncio.create_task(pump(reader, outer)), asyncio.create_task(pump(inner, writer))]
        cutting = asyncio.create_task(cut.wait())
        try:
            await asyncio.wait({*pumps, cutting}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (*pumps, cutting):
                task.cancel()
            await asyncio.gather(*pumps, cutting, return_exceptions=True)
            writer.transport.abort()
            outer.transport.abort()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(carry(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def handler_of(service: str, **methods: Any) -> Any:
    """A generic handler; each method is (kind, function), of raw bytes."""
    return grpc.method_handlers_generic_handler(
        service,
        {
            name: getattr(grpc, f"{kind}_rpc_method_handler")(function)
            for name, (kind, function) in methods.items()
        },
    )


class GrpcKit(Kit):
    protocol = "grpc"
    places = ("header",)

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[Upstream]:
        upstream = Upstream({"cut": asyncio.Event()})
        pool = pool_with(contract_file())
        word = GetMessageClass(pool.FindMessageTypeByName("contract.v1.Word"))

        def note(context: Any) -> None:
            upstream.seen.append({key.lower(): str(value) for key, value in context.invocation_metadata()})

        async def echo(request: bytes, context: Any) -> bytes:
            note(context)
            return request

        async def huge(request: bytes, context: Any) -> bytes:
            return word(word="x" * HUGE).SerializeToString()

        async def rejects(request: bytes, context: Any) -> None:
            note(context)
            await context.abort(grpc.StatusCode.NOT_FOUND, f"no such thing for {upstream.seen[-1]}")

        async def silent(request: bytes, context: Any) -> None:
            try:
                await asyncio.sleep(60)
            finally:
                upstream.gone.set()

        async def breaks(request: bytes, context: Any) -> None:
            upstream.place["cut"].set()
            await asyncio.sleep(60)

        async def stream(request: bytes, context: Any) -> AsyncIterator[bytes]:
            for n in range(3):
                yield word(n=n).SerializeToString()
                await asyncio.sleep(0.05)

        async def endless(request: bytes, context: Any) -> AsyncIterator[bytes]:
            try:
                while True:
                    yield word(n=upstream.sent, word="x" * 4096).SerializeToString()
                    upstream.sent += 1
            finally:
                upstream.gone.set()

        handler = handler_of(
            SERVICE,
            Echo=("unary_unary", echo), Huge=("unary_unary", huge), Rejects=("unary_unary", rejects),
            Silent=("unary_unary", silent), Breaks=("unary_unary", breaks),
            Stream=("unary_stream", stream), Endless=("unary_stream", endless),
        )  # fmt: skip
        async with (
            grpc_server(handler, pool=pool, names=(SERVICE,)) as upstream.place["port"],
            relay(upstream.place["port"], upstream.place["cut"]) as upstream.place["relay"],
        ):
            yield upstream

    def template(self, upstream: Upstream, case: str) -> Template:
        places = {"unreachable": free_port(), "breaks": upstream.place["relay"]}
        return {
            "call_template_type": "grpc",
            "host": "127.0.0.1",
            "port": places.get(case, upstream.place["port"]),
            "service_name": SERVICE,
            "method_name": "Echo" if case == "unreachable" else case.capitalize(),
            # One is asked for as a tool that was written by hand.
            **({} if case == "echo" else {"descriptors": DESCRIPTORS}),
        }

    def discovery(self, upstream: Upstream) -> Template:
        return {"call_template_type": "grpc", "host": "127.0.0.1", "port": upstream.place["port"]}

    def addresses(self, text: str) -> list[Template]:
        names = {"service_name": SERVICE, "method_name": "Echo", "descriptors": DESCRIPTORS}
        return [
            {"call_template_type": "grpc", "host": text, "port": 443, "use_ssl": tls, **names}
            for tls in (False, True)
        ]


def _descriptors() -> str:
    files = descriptor_pb2.FileDescriptorSet(file=[contract_file()])
    return base64.b64encode(files.SerializeToString()).decode()


DESCRIPTORS = _descriptors()
