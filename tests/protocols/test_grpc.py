"""gRPC: messages of every kind, reflection within bounds, statuses, TLS and channels."""

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Any

import grpc
import jsonschema_rs
import orjson
import pytest
from google.protobuf import descriptor_pb2, duration_pb2, wrappers_pb2
from google.protobuf.message_factory import GetMessageClass
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2
from grpc_status import rpc_status

from app.core.errors import (
    CredentialMissing,
    InvalidArguments,
    InvalidInput,
    ResponseTooLarge,
    UpstreamMalformed,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnauthorized,
    UpstreamUnreachable,
)
from app.core.settings import Settings
from app.outbound.credential_rendering import WireCredential
from app.outbound.egress import EgressSettings
from app.outbound.limits import Limits
from app.protocols.base import AdapterContext
from app.protocols.grpc.adapter import GrpcAdapter
from app.protocols.grpc.descriptors import Unusable, build_pool
from app.security.secret import Secret
from tests.harness.cases import for_each
from tests.harness.certificates import certificate
from tests.protocols.kits.grpc import DESCRIPTORS, SERVICE, F, add_fields, grpc_server, handler_of
from tests.protocols.peers.tcp import tcp_server
from tests.protocols.test_contract import call_of, whole

WKT = ".google.protobuf."
LIBRARY = "shop.v1.Library"


def shop_file() -> descriptor_pb2.FileDescriptorProto:
    """A message with a field of every kind, and methods of every kind."""
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop.v1", syntax="proto3")
    names = ("any", "duration", "timestamp", "wrappers", "empty", "field_mask")
    file.dependency.extend(f"google/protobuf/{name}.proto" for name in names)
    color = file.enum_type.add(name="Color")
    for number, name in enumerate(("COLOR_UNKNOWN", "RED", "GREEN")):
        color.value.add(name=name, number=number)
    thing = file.message_type.add(name="Thing")
    entry = thing.nested_type.add(name="StockEntry")
    entry.options.map_entry = True
    add_fields(entry, ("key", F.TYPE_STRING, ""), ("value", F.TYPE_INT32, ""))
    add_fields(
        thing,
        ("display_name", F.TYPE_STRING, ""), ("big", F.TYPE_INT64, ""), ("raw", F.TYPE_BYTES, ""),
        ("color", F.TYPE_ENUM, ".shop.v1.Color"), ("colors", F.TYPE_ENUM, "*.shop.v1.Color"),
        ("stock", F.TYPE_MESSAGE, "*.shop.v1.Thing.StockEntry"), ("parts", F.TYPE_MESSAGE, "*.shop.v1.Thing"),
        ("made_at", F.TYPE_MESSAGE, f"{WKT}Timestamp"), ("takes", F.TYPE_MESSAGE, f"{WKT}Duration"),
        ("rating", F.TYPE_MESSAGE, f"{WKT}Int32Value"), ("more", F.TYPE_MESSAGE, f"{WKT}Any"),
        ("mask", F.TYPE_MESSAGE, f"{WKT}FieldMask"), ("price", F.TYPE_DOUBLE, ""),
        ("by_mail", F.TYPE_STRING, ""), ("by_phone", F.TYPE_STRING, ""), ("count", F.TYPE_UINT32, ""),
    )  # fmt: skip
    thing.oneof_decl.add(name="contact")
    thing.field[13].oneof_index = thing.field[14].oneof_index = 0
    file.message_type.add(name="Unused").options.deprecated = True
    service = file.service.add(name="Library")
    for name, sends, answers in (
        ("Echo", False, False), ("Sum", True, False), ("Chat", True, True), ("Watch", False, True),
    ):  # fmt: skip
        service.method.add(
            name=name, input_type=".shop.v1.Thing", output_type=".shop.v1.Thing",
            client_streaming=sends, server_streaming=answers,
        )  # fmt: skip
    service.method[0].options.idempotency_level = descriptor_pb2.MethodOptions.NO_SIDE_EFFECTS
    service.method.add(name="Fail", input_type=f"{WKT}StringValue", output_type=f"{WKT}Empty")
    service.method.add(name="Name", input_type=f"{WKT}Empty", output_type=f"{WKT}StringValue")
    return file


POOL = build_pool({"shop.proto": shop_file()})
THING = GetMessageClass(POOL.FindMessageTypeByName("shop.v1.Thing"))
FULL: dict[str, Any] = {
    "displayName": "Büch", "big": "9007199254740993", "raw": "AP8=", "color": "GREEN", "colors": ["RED", "GREEN"],
    "stock": {"a": 1, "b": 2}, "parts": [{"displayName": "p", "parts": [{"count": 3}]}],
    "madeAt": "2026-01-02T03:04:05Z", "takes": "1.500s", "rating": 0,
    "more": {"@type": "type.googleapis.com/shop.v1.Thing", "displayName": "in"}, "mask": "displayName,big",
    "price": 1.25, "byMail": "x@example.com", "count": 7,
}  # fmt: skip


class Shop:
    """A server of `shop.v1.Library`."""

    def __init__(self) -> None:
        self.port = 0
        self.peers: list[str] = []
        self.status: tuple[grpc.StatusCode, str, tuple[Any, ...]] = (grpc.StatusCode.OK, "", ())
        self.answer: bytes | None = None
        self.left: list[float | None] = []

    async def echo(self, request: bytes, context: Any) -> bytes:
        self.peers.append(context.peer())
        self.left.append(context.time_remaining())
        return request if self.answer is None else self.answer

    async def add(self, requests: AsyncIterator[bytes], context: Any) -> bytes:
        return THING(count=sum([THING.FromString(one).count async for one in requests])).SerializeToString()

    async def chat(self, requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        async for one in requests:
            yield one

    async def watch(self, request: bytes, context: Any) -> AsyncIterator[bytes]:
        if self.status[0] is not grpc.StatusCode.OK:
            await self.fail(request, context)
        yield request

    async def fail(self, request: bytes, context: Any) -> bytes:
        code, text, trailing = self.status
        await context.abort(code, text, trailing)
        raise AssertionError

    async def called(self, request: bytes, context: Any) -> bytes:
        return wrappers_pb2.StringValue(value="Ann").SerializeToString()

    @property
    def handler(self) -> Any:
        return handler_of(
            LIBRARY,
            Echo=("unary_unary", self.echo), Sum=("stream_unary", self.add), Chat=("stream_stream", self.chat),
            Watch=("unary_stream", self.watch), Fail=("unary_unary", self.fail), Name=("unary_unary", self.called),
        )  # fmt: skip

    def template(self, method: str = "Echo", **fields: Any) -> dict[str, Any]:
        return {
            "call_template_type": "grpc", "host": "127.0.0.1", "port": self.port, "service_name": LIBRARY,
            "method_name": method, **fields,
        }  # fmt: skip


@pytest.fixture
async def shop() -> AsyncIterator[Shop]:
    made = Shop()
    async with grpc_server(made.handler, pool=POOL, names=(LIBRARY,)) as made.port:
        yield made


@pytest.fixture
async def adapter(engine, masker) -> AsyncIterator[GrpcAdapter]:
    made = GrpcAdapter(AdapterContext(engine, engine.network, masker, Settings(_env_file=None)))
    yield made
    await made.aclose()


async def called(adapter: GrpcAdapter, template: Any, arguments: Any = None, **fields: Any) -> Any:
    return orjson.loads(await whole(await adapter.call(call_of(adapter, template, arguments, **fields))))


async def tools_of(adapter: GrpcAdapter, template: Any, **fields: Any) -> dict[str, Any]:
    found = await adapter.discover(call_of(adapter, template, **fields))
    assert found.is_generated
    return {tool["name"]: tool for tool in orjson.loads(found.raw)["tools"]}


async def test_every_kind_of_field_goes_there_and_comes_back(shop: Shop, adapter) -> None:
    assert await called(adapter, shop.template(), FULL) == FULL


async def test_names_of_the_proto_file_and_numbers_are_taken_too(shop: Shop, adapter) -> None:
    sent = {"display_name": "a", "big": 5, "color": 1, "made_at": "2026-01-02T04:04:05+01:00"}
    assert await called(adapter, shop.template(), sent) == {
        "displayName": "a", "big": "5", "color": "RED", "madeAt": "2026-01-02T03:04:05Z",
    }  # fmt: skip


@for_each(
    ("arguments", "at"),
    [
        ({"nope": 1}, "/nope"),
        ({"parts": [{}, {"parts": [{"x/y": 1}]}]}, "/parts/1/parts/0/x~1y"),
        ({"big": "x"}, "/big"),
        ({"count": -1}, "/count"),
        ({"color": "PINK"}, "/color"),
        ({"colors": ["RED", "PINK"]}, "/colors/1"),
        ({"stock": {"a": 1, "b": "x"}}, "/stock/b"),
        ({"parts": {"displayName": "x"}}, "/parts"),
        ({"madeAt": "yesterday"}, "/madeAt"),
        ({"takes": 5}, "/takes"),
        ({"more": {"@type": "type.googleapis.com/no.Such"}}, "/more"),
        ({"more": {"@type": 5}}, "/more"),
        ({"byMail": "a", "by_phone": "b"}, "/by_phone"),
        ({"price": 10**400}, "/price"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
async def test_what_does_not_fit_is_pointed_at(shop: Shop, adapter, arguments, at) -> None:
    call = call_of(adapter, shop.template(), arguments)
    with pytest.raises(InvalidArguments) as caught:
        await adapter.call(call)
    assert [fault.pointer for fault in caught.value.errors] == [at]
    assert not shop.peers


async def test_a_request_that_is_no_object_is_given_as_value(shop: Shop, adapter) -> None:
    shop.status = (grpc.StatusCode.NOT_FOUND, "no", ())
    with pytest.raises(UpstreamRejected):
        await called(adapter, shop.template("Fail"), {"value": "text"})
    with pytest.raises(InvalidArguments):
        await called(adapter, shop.template("Fail"), {"text": "text"})
    assert await called(adapter, shop.template("Name")) == "Ann"


async def test_a_method_of_many_requests_takes_messages(shop: Shop, adapter) -> None:
    sent = {"messages": [{"count": 1}, {"count": 4}]}
    assert await called(adapter, shop.template("Sum"), sent) == {"count": 5}
    assert await called(adapter, shop.template("Chat"), sent) == sent["messages"]
    with pytest.raises(InvalidArguments) as caught:
        await called(adapter, shop.template("Sum"), {"messages": [{"count": 1}, {"no": 4}]})
    assert caught.value.errors[0].pointer == "/messages/1/no"
    for wrong in ({"count": 1}, {"messages": [], "more": 1}, {}):
        with pytest.raises(InvalidArguments):
            await called(adapter, shop.template("Sum"), wrong)


async def test_a_discovery_makes_a_tool_of_every_method(shop: Shop, adapter) -> None:
    tools = await tools_of(adapter, {"call_template_type": "grpc", "host": "127.0.0.1", "port": shop.port})
    assert sorted(tools) == [f"Library.{name}" for name in ("Chat", "Echo", "Fail", "Name", "Sum", "Watch")]
    echo = tools["Library.Echo"]
    assert echo["description"].startswith(
        "Echo: the method Echo of the gRPC service shop.v1.Library. Takes display"
    )
    assert jsonschema_rs.Draft202012Validator(echo["inputs"]).is_valid(FULL)
    assert not jsonschema_rs.Draft202012Validator(echo["inputs"]).is_valid({"raw": "no base64!"})
    assert not jsonschema_rs.Draft202012Validator(echo["inputs"]).is_valid(
        {"parts": [{"parts": [{"count": "x"}]}]}
    )
    messages = tools["Library.Sum"]["inputs"]
    assert jsonschema_rs.Draft202012Validator(messages).is_valid({"messages": [FULL]})
    assert not jsonschema_rs.Draft202012Validator(messages).is_valid({"messages": [{"count": "x"}]})
    assert tools["Library.Watch"]["outputs"]["type"] == "array"
    assert "stream" in tools["Library.Watch"]["description"]
    streaming = {name for name, one in tools.items() if one["tool_call_template"].get("server_streaming")}
    assert streaming == {"Library.Watch", "Library.Chat"}
    # A call needs nothing but the template, which is cut down to this method.
    template = shop.template() | echo["tool_call_template"]
    assert adapter.prepare(template).rpc is not None
    assert adapter.is_safe(adapter.prepare(template))
    kept = descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode(template["descriptors"]))
    # A Thing has an Any, which may hold any other message of its file.
    assert {message.name for file in kept.file for message in file.message_type} == {"Thing", "Unused"}
    fail = base64.b64decode(tools["Library.Fail"]["tool_call_template"]["descriptors"])
    assert not [
        m for file in descriptor_pb2.FileDescriptorSet.FromString(fail).file for m in file.message_type
    ]
    assert [method.name for file in kept.file for method in file.service[0].method] == ["Echo"]
    assert await called(adapter, template, FULL) == FULL
    exact = [adapter.request_identity(call_of(adapter, template, {"count": n})) for n in (1, 1, 2)]
    assert exact[0] == exact[1] != exact[2]


@pytest.mark.parametrize("name", [LIBRARY, "Library"])
async def test_a_named_method_is_the_one_tool(shop: Shop, adapter, name) -> None:
    tools = await tools_of(adapter, shop.template("Echo", service_name=name))
    assert list(tools) == ["Library.Echo"]
    assert tools["Library.Echo"]["tool_call_template"]["service_name"] == LIBRARY


async def test_a_name_that_the_server_does_not_have(shop: Shop, adapter) -> None:
    with pytest.raises(InvalidInput) as caught:
        await tools_of(adapter, shop.template("Nope"))
    assert caught.value.errors[0].pointer == "/method_name"
    with pytest.raises(InvalidInput):
        await tools_of(adapter, shop.template("Echo", service_name="no.Such"))
    with pytest.raises(UpstreamRejected):
        await called(adapter, shop.template("Nope"))


async def test_the_first_version_of_reflection_is_requested_first(adapter) -> None:
    shop = Shop()
    servicer = reflection.ReflectionServicer([LIBRARY], pool=POOL)
    asked = []

    def info(requests: Any, context: Any) -> Any:
        for one in requests:
            asked.append(one)
            yield from servicer.ServerReflectionInfo(iter([one]), context)

    method = grpc.stream_stream_rpc_method_handler(
        info,
        request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
        response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    only = grpc.method_handlers_generic_handler(
        "grpc.reflection.v1.ServerReflection", {"ServerReflectionInfo": method}
    )
    async with grpc_server(shop.handler, only) as shop.port:
        assert "Library.Echo" in await tools_of(adapter, shop.template(None, service_name=None))
        assert asked
    async with grpc_server(shop.handler) as shop.port:
        with pytest.raises(UpstreamRejected) as caught:
            await tools_of(adapter, shop.template())
        assert caught.value.response.body["code"] == "UNIMPLEMENTED"


async def test_a_server_of_very_many_services_is_bounded(adapter) -> None:
    pool = POOL
    names = [f"many.S{number}" for number in range(10_000)]
    async with grpc_server(pool=pool, names=names) as port:
        template = {"call_template_type": "grpc", "host": "127.0.0.1", "port": port}
        with pytest.raises(ResponseTooLarge, match="service_name"):
            await tools_of(adapter, template)
        with pytest.raises(ResponseTooLarge):
            await tools_of(adapter, template, limits=Limits(response_bytes=1000))


async def test_a_server_of_many_methods_is_discovered_in_time(adapter) -> None:
    file = descriptor_pb2.FileDescriptorProto(name="many.proto", package="many", syntax="proto3")
    for number in range(3_000):
        message = file.message_type.add(name=f"M{number}")
        add_fields(message, *((f"field_{n}", F.TYPE_STRING, "") for n in range(10)))
    services = []
    for number in range(300):
        service = file.service.add(name=f"S{number}")
        services.append(f"many.S{number}")
        for n in range(10):
            of = f".many.M{number * 10 + n}"
            service.method.add(name=f"Do{n}", input_type=of, output_type=of)
    async with grpc_server(pool=build_pool({file.name: file}), names=services) as port:
        template = {"call_template_type": "grpc", "host": "127.0.0.1", "port": port}
        tools = await tools_of(adapter, template | {"service_name": "many.S7"})
        assert len(tools) == 10
        assert all(len(tool["tool_call_template"]["descriptors"]) < 1000 for tool in tools.values())


@for_each(
    ("code", "error", "status"),
    [
        ("CANCELLED", UpstreamRejected, 499), ("UNKNOWN", UpstreamRejected, 502),
        ("INVALID_ARGUMENT", UpstreamRejected, 400), ("DEADLINE_EXCEEDED", UpstreamTimeout, 504),
        ("NOT_FOUND", UpstreamRejected, 404), ("ALREADY_EXISTS", UpstreamRejected, 409),
        ("PERMISSION_DENIED", UpstreamRejected, 502), ("RESOURCE_EXHAUSTED", UpstreamRejected, 429),
        ("FAILED_PRECONDITION", UpstreamRejected, 400), ("ABORTED", UpstreamRejected, 409),
        ("OUT_OF_RANGE", UpstreamRejected, 400), ("UNIMPLEMENTED", UpstreamRejected, 502),
        ("INTERNAL", UpstreamRejected, 502), ("UNAVAILABLE", UpstreamRejected, 502),
        ("DATA_LOSS", UpstreamRejected, 502), ("UNAUTHENTICATED", UpstreamUnauthorized, 502),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)  # fmt: skip
async def test_statuses_are_errors_of_their_kind(shop: Shop, adapter, masker, code, error, status) -> None:
    masker.add("hidden-value")
    shop.status = (grpc.StatusCode[code], "because of hidden-value", ())
    for method, arguments in (("Fail", {"value": "x"}), ("Watch", {})):
        with pytest.raises(error) as caught:
            await called(adapter, shop.template(method), arguments, streaming=method == "Watch")
        assert caught.value.status == status
        if caught.value.response is not None:
            assert caught.value.response.body == {"code": code, "message": "because of ***"}


async def test_status_details_are_json(shop: Shop, adapter, masker) -> None:
    masker.add("hidden-value")
    violation = error_details_pb2.BadRequest.FieldViolation(field="email", description="is no address")
    reason = error_details_pb2.ErrorInfo(reason="INVALID", domain="shop", metadata={"header": "hidden-value"})
    sent = status_pb2.Status(code=code_pb2.INVALID_ARGUMENT, message="bad")
    for detail in (
        error_details_pb2.BadRequest(field_violations=[violation]),
        reason,
        error_details_pb2.RetryInfo(retry_delay=duration_pb2.Duration(seconds=2)),
        duration_pb2.Duration(seconds=3),
        THING(count=3),
    ):
        sent.details.add().Pack(detail)
    wire = rpc_status.to_status(sent)
    shop.status = (wire.code, wire.details, wire.trailing_metadata)
    with pytest.raises(UpstreamRejected) as caught:
        await called(adapter, shop.template("Watch"))
    prefix = "type.googleapis.com/"
    assert caught.value.response.body["details"] == [
        {
            "@type": f"{prefix}google.rpc.BadRequest",
            "fieldViolations": [{"field": "email", "description": "is no address"}],
        },
        {
            "@type": f"{prefix}google.rpc.ErrorInfo",
            "reason": "INVALID",
            "domain": "shop",
            "metadata": {"header": "***"},
        },
        {"@type": f"{prefix}google.rpc.RetryInfo", "retryDelay": "2s"},
        {"@type": f"{prefix}google.protobuf.Duration", "value": "3s"},
        {"@type": f"{prefix}shop.v1.Thing", "count": 3},
    ]


async def test_status_details_that_cannot_be_decoded_keep_their_type_only(shop: Shop, adapter) -> None:
    status = status_pb2.Status(code=code_pb2.NOT_FOUND, message="another message than that of the call")
    # The last one is a type that the process knows, of a package that no upstream may mean.
    names = (
        "no.Such",
        "google.rpc.BadRequest",
        "google.rpc.NoSuch",
        "grpc.reflection.v1alpha.ServiceResponse",
    )
    for name in names:
        status.details.add(type_url=f"type.googleapis.com/{name}", value=b"\xff\xff")
    status.details[-1].value = b""
    raw = status.SerializeToString()
    shop.status = (grpc.StatusCode.INVALID_ARGUMENT, "bad", (("grpc-status-details-bin", raw),))
    with pytest.raises(UpstreamRejected) as caught:
        await called(adapter, shop.template("Watch"))
    assert caught.value.response.body == {
        "code": "INVALID_ARGUMENT",
        "message": "bad",
        "details": [{"@type": f"type.googleapis.com/{name}"} for name in names],
    }
    shop.status = (grpc.StatusCode.INVALID_ARGUMENT, "bad", (("grpc-status-details-bin", b"\xff"),))
    with pytest.raises(UpstreamRejected) as caught:
        await called(adapter, shop.template("Watch"))
    assert caught.value.response.body == {"code": "INVALID_ARGUMENT", "message": "bad"}


async def test_responses_that_have_no_json(shop: Shop, adapter) -> None:
    strange = THING()
    strange.more.type_url = "type.googleapis.com/no.Such"
    late = THING()
    late.made_at.seconds = 10**17
    for answer in (b"\xff\xff", strange.SerializeToString(), late.SerializeToString()):
        shop.answer = answer
        with pytest.raises(UpstreamMalformed):
            await called(adapter, shop.template())


async def test_a_response_that_grows_as_json_is_rejected(shop: Shop, adapter) -> None:
    shop.answer = THING(colors=[2] * 50_000).SerializeToString()
    with pytest.raises(ResponseTooLarge):
        await called(adapter, shop.template(), limits=Limits(response_bytes=100_000))
    assert len((await called(adapter, shop.template()))["colors"]) == 50_000


async def test_the_deadline_is_sent_to_the_server(shop: Shop, adapter) -> None:
    await called(adapter, shop.template(), seconds=9)
    assert shop.left[0] is not None
    assert 5 < shop.left[0] < 10


@pytest.mark.parametrize(
    ("fields", "connections"), [([{"scope": b"a"}, {"scope": b"b"}], 2), ([{"reuse": False}] * 2, 6)]
)
async def test_connections_belong_to_a_scope(shop: Shop, adapter, fields, connections: int) -> None:
    for own in fields:
        for _ in range(3):
            await called(adapter, shop.template(descriptors=None), {"count": 1}, **own)
    assert len(set(shop.peers)) == connections


async def test_calls_share_a_connection_until_it_is_lost(shop: Shop, adapter) -> None:
    await asyncio.gather(*(called(adapter, shop.template(descriptors=None), {"count": 1}) for _ in range(10)))
    assert len(set(shop.peers)) == 1
    [first] = [pool.shared.channel for pool in adapter._channels._pools.values()]
    again = Shop()
    async with grpc_server(again.handler, pool=POOL, names=(LIBRARY,)) as again.port:
        await called(adapter, again.template())
    # Until the library has noticed the end of the connection, a call is sent on it and fails otherwise.
    shared = [pool.shared for pool in adapter._channels._pools.values() if pool.shared is not None]
    async with asyncio.timeout(60):
        for one in shared:
            if one.channel is not first:
                await one.channel.wait_for_state_change(grpc.ChannelConnectivity.READY)
    with pytest.raises(UpstreamUnreachable) as caught:
        await called(adapter, again.template())
    assert not caught.value.request_sent
    assert len(adapter._channels) == 1


async def test_credentials_that_metadata_cannot_carry_are_rejected(shop: Shop, adapter) -> None:
    for location, name, value in (
        ("query", "key", "abc"), ("cookie", "key", "abc"), ("header", "grpc-timeout", "abc"),
        ("header", "x-bin", "abc"), ("header", "X-Key", "é"), ("header", "Content-Type", "abc"),
    ):  # fmt: skip
        wire = WireCredential(location, name, Secret(value), "mine")
        call = call_of(adapter, shop.template(), credentials=(wire,))
        for action in (adapter.call, adapter.discover):
            with pytest.raises(CredentialMissing, match="mine"):
                await action(call)
        with pytest.raises(CredentialMissing):
            adapter.describe(call)
    assert not shop.peers


@for_each(
    ("fields", "at"),
    [
        ({"service_name": "a/b"}, "/service_name"),
        ({"method_name": "a.b"}, "/method_name"),
        ({"headers": {"grpc-timeout": "1S"}}, "/headers/grpc-timeout"),
        ({"headers": {"Content-Type": "a/b"}}, "/headers/Content-Type"),
        ({"descriptors": "no base64"}, "/descriptors"),
        ({"descriptors": base64.b64encode(b"\xff\xff").decode()}, "/descriptors"),
        ({"descriptors": DESCRIPTORS, "method_name": "Nope"}, "/descriptors"),
        ({"port": 0}, "/port"),
        ({"host": "a b"}, "/host"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_templates_that_can_never_be_called(adapter, fields, at) -> None:
    template = {"call_template_type": "grpc", "host": "127.0.0.1", "port": 1, "service_name": SERVICE,
                "method_name": "Echo", **fields}  # fmt: skip
    with pytest.raises(InvalidInput) as caught:
        adapter.prepare(template)
    assert caught.value.errors[0].pointer == at


def _set(**files: descriptor_pb2.FileDescriptorProto) -> dict[str, descriptor_pb2.FileDescriptorProto]:
    for name, file in files.items():
        file.name = name
    return files


def test_descriptors_that_contradict_themselves() -> None:
    file = descriptor_pb2.FileDescriptorProto
    twice = file(package="a")
    twice.message_type.add(name="A")
    twice.message_type.add(name="A")
    evil = file(package="google.protobuf")
    evil.message_type.add(name="Timestamp")
    for files in (
        _set(a=file(dependency=["b"]), b=file(dependency=["a"])),
        _set(a=file(dependency=["a"])),
        _set(a=file(dependency=["missing"])),
        _set(a=twice),
        _set(a=evil),
    ):
        with pytest.raises(Unusable):
            build_pool(files)
    chain = {f"f{n}": file(name=f"f{n}", dependency=[f"f{n + 1}"]) for n in range(3000)}
    chain["f3000"] = file(name="f3000")
    build_pool(chain)


async def test_a_proxy_is_rejected_with_an_error_that_names_it(shop: Shop, adapter) -> None:
    egress = EgressSettings(proxy_url=Secret("http://127.0.0.1:3128"))
    with pytest.raises(InvalidInput, match="proxy"):
        await called(adapter, shop.template(), egress=egress)


async def test_tls_with_the_providers_own_authority_and_certificate(adapter) -> None:
    shop = Shop()
    authority = certificate("192.0.2.1")
    pem, key, *_ = certificate("127.0.0.1", issuer=authority)
    credentials = grpc.ssl_server_credentials(
        [(key.encode(), pem.encode())], root_certificates=authority[0].encode(), require_client_auth=True
    )
    mine, my_key, *_ = certificate("192.0.2.7", issuer=authority)
    good = EgressSettings(ca_bundle=authority[0], client_certificate=mine, client_key=Secret(my_key))
    async with grpc_server(shop.handler, pool=POOL, names=(LIBRARY,), credentials=credentials) as shop.port:
        template = shop.template(use_ssl=True)
        assert adapter.origin(adapter.prepare(template)) == f"grpcs://127.0.0.1:{shop.port}"
        assert await called(adapter, template, {"count": 1}, egress=good) == {"count": 1}
        other = certificate("192.0.2.2")
        for egress in (None, EgressSettings(ca_bundle=other[0])):
            with pytest.raises(UpstreamUnreachable, match="certificate") as caught:
                await called(adapter, template, egress=egress)
            assert not caught.value.request_sent
        with pytest.raises(UpstreamUnreachable):
            await called(adapter, shop.template())
    wrong, wrong_key, *_ = certificate("127.0.0.9", issuer=authority)
    credentials = grpc.ssl_server_credentials([(wrong_key.encode(), wrong.encode())])
    async with grpc_server(shop.handler, pool=POOL, credentials=credentials) as shop.port:
        with pytest.raises(UpstreamUnreachable):
            await called(adapter, shop.template(use_ssl=True), egress=EgressSettings(ca_bundle=authority[0]))


@pytest.mark.parametrize(
    "response", [b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", b"", b"\x00" * 64]
)
async def test_a_server_that_does_not_speak_grpc_is_unreachable(adapter, response) -> None:
    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(16)
        writer.write(response)

    async with tcp_server(respond) as port:
        template = {"call_template_type": "grpc", "host": "127.0.0.1", "port": port, "service_name": SERVICE,
                    "method_name": "Echo", "descriptors": DESCRIPTORS}  # fmt: skip
        with pytest.raises(UpstreamUnreachable):
            await called(adapter, template, seconds=3)
