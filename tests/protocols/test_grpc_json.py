"""gRPC takes and returns the whole JSON mapping of protobuf (https://protobuf.dev/programming-guides/json/)."""

import base64
from collections.abc import AsyncIterator
from typing import Any

import jsonschema_rs
import orjson
import pytest
from google.protobuf import descriptor_pb2

from app.core.errors import InvalidArguments
from app.core.settings import Settings
from app.protocols.base import Adapter, AdapterContext
from app.protocols.grpc.adapter import GrpcAdapter
from app.protocols.grpc.descriptors import build_pool
from tests.harness.cases import for_each
from tests.protocols.calling import call_of, read_response
from tests.protocols.kits.grpc import F, add_fields, grpc_server, handler_of

WKT = ".google.protobuf."
SERVICE = "json.v1.Mapping"
ANY = "type.googleapis.com"
FILES = ("any", "duration", "empty", "field_mask", "struct", "timestamp", "wrappers")
SCALARS = ("double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64",
           "sfixed32", "sfixed64", "bool", "string", "bytes")  # fmt: skip
TYPES = ("Timestamp", "Duration", "FieldMask", "Struct", "Value", "ListValue", "Any", "Empty", "DoubleValue", "FloatValue",
         "Int64Value", "UInt64Value", "Int32Value", "UInt32Value", "BoolValue", "StringValue", "BytesValue")  # fmt: skip


def mapping_file() -> descriptor_pb2.FileDescriptorProto:
    """A message with a field of every type, called `f_` and its name; a method for it, and for each well-known type."""
    file = descriptor_pb2.FileDescriptorProto(name="json.proto", package="json.v1", syntax="proto3")
    file.dependency.extend(f"google/protobuf/{name}.proto" for name in FILES)
    kind = file.enum_type.add(name="Kind")
    for number, name in enumerate(("KIND_UNKNOWN", "ONE", "TWO")):
        kind.value.add(name=name, number=number)
    message = file.message_type.add(name="All")
    for name, key in (("NamesEntry", F.TYPE_BOOL), ("NumbersEntry", F.TYPE_INT64)):
        entry = message.nested_type.add(name=name)
        entry.options.map_entry = True
        add_fields(entry, ("key", key, ""), ("value", F.TYPE_DOUBLE, ""))
    add_fields(
        message,
        *((f"f_{name}", getattr(F, f"TYPE_{name.upper()}"), "") for name in SCALARS),
        *((f"f_{name.lower()}", F.TYPE_MESSAGE, WKT + name) for name in TYPES),
        ("f_null", F.TYPE_ENUM, f"{WKT}NullValue"),
        ("f_kind", F.TYPE_ENUM, ".json.v1.Kind"), ("f_kinds", F.TYPE_ENUM, "*.json.v1.Kind"),
        ("f_floats", F.TYPE_FLOAT, "*"), ("f_all", F.TYPE_MESSAGE, ".json.v1.All"),
        ("f_names", F.TYPE_MESSAGE, "*.json.v1.All.NamesEntry"), ("f_numbers", F.TYPE_MESSAGE, "*.json.v1.All.NumbersEntry"),
    )  # fmt: skip
    service = file.service.add(name="Mapping")
    service.method.add(name="Echo", input_type=".json.v1.All", output_type=".json.v1.All")
    for name in TYPES:
        service.method.add(name=name, input_type=WKT + name, output_type=WKT + name)
    return file


@pytest.fixture(scope="module")
async def port() -> AsyncIterator[int]:
    async def echo(request: bytes, context: Any) -> bytes:
        return request

    methods = dict.fromkeys(("Echo", *TYPES), ("unary_unary", echo))
    pool = build_pool({"json.proto": mapping_file()})
    async with grpc_server(handler_of(SERVICE, **methods), pool=pool, names=(SERVICE,)) as running:
        yield running


@pytest.fixture
async def adapter(engine, masker) -> AsyncIterator[Adapter[Any]]:
    made = GrpcAdapter(AdapterContext(engine, engine.network, masker, Settings(_env_file=None)))
    yield made
    await made.aclose()


async def tool_of(adapter: Adapter[Any], port: int, method: str) -> tuple[dict[str, Any], dict[str, Any]]:
    template = {"call_template_type": "grpc", "host": "127.0.0.1", "port": port, "service_name": SERVICE,
                "method_name": method}  # fmt: skip
    found = await adapter.discover(call_of(adapter, template))
    (tool,) = orjson.loads(found.raw)["tools"]
    return tool, template | tool["tool_call_template"]


def is_valid(schema: Any, value: Any) -> bool:
    return bool(jsonschema_rs.Draft202012Validator(schema).is_valid(value))


TAKEN: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({f"f{kind}": text}, {f"f{kind}": text})
    for kind in ("Double", "Float") for text in ("NaN", "Infinity", "-Infinity")
] + [
    ({"fDouble": "1.5e3", "fFloat": "-2"}, {"fDouble": 1500.0, "fFloat": -2.0}),
    ({"fInt32": "-7", "fUint32": "1e3", "fSint32": 1e3}, {"fInt32": -7, "fUint32": 1000, "fSint32": 1000}),
    ({"fInt64": "9223372036854775807", "fUint64": 18446744073709551615, "fSint64": -5, "fFixed64": "5.0"},
     {"fInt64": "9223372036854775807", "fUint64": "18446744073709551615", "fSint64": "-5", "fFixed64": "5"}),
    ({"fBytes": "-_8"}, {"fBytes": "+/8="}),
    ({"fBytes": "+/8="}, {"fBytes": "+/8="}),
    ({"fBytes": "-_8="}, {"fBytes": "+/8="}),
    ({"fKind": "TWO", "fKinds": [1, "ONE", 0]}, {"fKind": "TWO", "fKinds": ["ONE", "ONE", "KIND_UNKNOWN"]}),
    # Numbers that the enum does not have are retained.
    ({"fKind": 77}, {"fKind": 77}),
    ({"fTimestamp": "2026-01-02T04:04:05.1+01:00"}, {"fTimestamp": "2026-01-02T03:04:05.100Z"}),
    ({"fTimestamp": "0001-01-01T00:00:00Z"}, {"fTimestamp": "0001-01-01T00:00:00Z"}),
    ({"fDuration": "-1.5s"}, {"fDuration": "-1.500s"}),
    ({"fDuration": "1.000340012s"}, {"fDuration": "1.000340012s"}),
    ({"fFieldmask": "fInt32,fAll.fKind"}, {"fFieldmask": "fInt32,fAll.fKind"}),
    ({"fStruct": {"a": [1, None, {"b": "c"}]}}, {"fStruct": {"a": [1.0, None, {"b": "c"}]}}),
    ({"fValue": None}, {"fValue": None}),
    ({"fValue": [True, "x", 1.5]}, {"fValue": [True, "x", 1.5]}),
    ({"fListvalue": [None, {}]}, {"fListvalue": [None, {}]}),
    ({"fEmpty": {}}, {"fEmpty": {}}),
    ({"fDoublevalue": "NaN", "fFloatvalue": 0, "fInt64value": 5, "fUint64value": "6", "fInt32value": "0", "fUint32value": 7},
     {"fDoublevalue": "NaN", "fFloatvalue": 0.0, "fInt64value": "5", "fUint64value": "6", "fInt32value": 0, "fUint32value": 7}),
    ({"fBoolvalue": False, "fStringvalue": "", "fBytesvalue": "-_8"},
     {"fBoolvalue": False, "fStringvalue": "", "fBytesvalue": "+/8="}),
    ({"fFloats": ["NaN", 1, "2.5"]}, {"fFloats": ["NaN", 1.0, 2.5]}),
    ({"fNames": {"true": "Infinity"}, "fNumbers": {"-5": 1}}, {"fNames": {"true": "Infinity"}, "fNumbers": {"-5": 1.0}}),
    ({"fAll": {"fKind": 1, "fAll": {"fDouble": "NaN"}}}, {"fAll": {"fKind": "ONE", "fAll": {"fDouble": "NaN"}}}),
    ({"f_int32": 5, "f_kind": 2}, {"fInt32": 5, "fKind": "TWO"}),
    # null is the field that is not set, whatever its type.
    ({"fInt32": None, "fString": None, "fKind": None, "fKinds": None, "fAll": None, "fNames": None, "fTimestamp": None,
      "fAny": None, "fDoublevalue": None, "fEmpty": None, "fStruct": None, "fBytes": None, "fNull": None}, {}),
    *(
        ({"fAny": {"@type": f"{ANY}/google.protobuf.{name}", "value": value}},) * 2
        for name, value in {"Timestamp": "2026-01-02T03:04:05Z", "Duration": "2s", "FieldMask": "a", "Struct": {"a": 1.0},
                            "Value": "x", "ListValue": [1.0], "StringValue": "x", "Int64Value": "5"}.items()
    ),
    ({"fAny": {"@type": f"{ANY}/google.protobuf.Empty", "value": {}}}, {"fAny": {"@type": f"{ANY}/google.protobuf.Empty"}}),
    ({"fAny": {"@type": f"{ANY}/json.v1.All", "fKind": 1}}, {"fAny": {"@type": f"{ANY}/json.v1.All", "fKind": "ONE"}}),
]  # fmt: skip


@for_each(("sent", "received"), TAKEN, ids=[str(n) for n in range(len(TAKEN))])
async def test_a_value_of_the_mapping_is_taken_and_returned(adapter, port, sent, received) -> None:
    tool, template = await tool_of(adapter, port, "Echo")
    assert is_valid(tool["inputs"], sent)
    response = orjson.loads(await read_response(adapter, template, sent))
    assert response == received
    assert is_valid(tool["outputs"], response)


REJECTED: list[tuple[dict[str, Any], str]] = [
    ({"fDouble": "nan"}, "/fDouble"),
    ({"fInt32": "1.5"}, "/fInt32"),
    ({"fInt32": "3000000000"}, "/fInt32"),
    ({"fInt64": "9223372036854775808"}, "/fInt64"),
    ({"fKind": "THREE"}, "/fKind"),
    ({"fKinds": [None]}, "/fKinds/0"),
    ({"fTimestamp": "2026-01-02"}, "/fTimestamp"),
    ({"fDuration": "1"}, "/fDuration"),
    ({"fAll": {"fDoublevalue": "x"}}, "/fAll/fDoublevalue"),
    ({"fNumbers": {"x": 1}}, "/fNumbers/x"),
    ({"fAny": {"@type": f"{ANY}/nobody.knows.Me"}}, "/fAny"),
]


@for_each(("sent", "at"), REJECTED, ids=[str(n) for n in range(len(REJECTED))])
async def test_another_value_is_rejected_with_a_pointer(adapter, port, sent, at) -> None:
    _, template = await tool_of(adapter, port, "Echo")
    with pytest.raises(InvalidArguments) as caught:
        await read_response(adapter, template, sent)
    assert [error.pointer for error in caught.value.errors] == [at]


NOT_IN_THE_MAPPING = [{"fDouble": "inf"}, {"fDouble": ""}, {"fInt32": ""}, {"fInt32": "0x1"}, {"fInt32": True}, {"fBool": "true"},
                      {"fBytes": "a b"}, {"fKind": True}, {"fKind": 1.5}, {"fDuration": "1m"}, {"fFloats": [None]}]  # fmt: skip


@for_each("sent", NOT_IN_THE_MAPPING, ids=[str(n) for n in range(len(NOT_IN_THE_MAPPING))])
async def test_what_is_not_in_the_mapping_does_not_fit_the_inputs(adapter, port, sent) -> None:
    tool, _ = await tool_of(adapter, port, "Echo")
    assert not is_valid(tool["inputs"], sent)


WHOLE: dict[str, tuple[Any, Any]] = {
    "Timestamp": ("2026-01-02T03:04:05Z",) * 2, "Duration": ("2s",) * 2, "FieldMask": ("a,bC",) * 2,
    "Value": ([None, "x"],) * 2, "ListValue": ([1.0],) * 2,
    "DoubleValue": ("NaN",) * 2, "FloatValue": ("2.5", 2.5), "Int64Value": (5, "5"), "UInt64Value": ("5", "5"),
    "Int32Value": ("5", 5), "UInt32Value": (5, 5), "BoolValue": (True,) * 2, "StringValue": ("x",) * 2,
    "BytesValue": ("-_8", base64.b64encode(b"\xfb\xff").decode()),
}  # fmt: skip


@for_each("name", TYPES)
async def test_a_request_that_is_a_well_known_type_is_taken_and_returned(adapter, port, name) -> None:
    tool, template = await tool_of(adapter, port, name)
    if name in WHOLE:
        sent, received = {"value": WHOLE[name][0]}, WHOLE[name][1]
    else:
        sent = received = {
            "Struct": {"a": {"b": [None]}},
            "Empty": {},
            "Any": {"@type": f"{ANY}/json.v1.All"},
        }[name]
    assert is_valid(tool["inputs"], sent)
    response = orjson.loads(await read_response(adapter, template, sent))
    assert response == received
    assert is_valid(tool["outputs"], response)
