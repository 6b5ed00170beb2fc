"""Conversion of messages to JSON Schema 2020-12, by the JSON mapping of protobuf.

Inputs take all that a parser of this mapping accepts: numbers as text, `NaN` and `Infinity`, enums by name or
number, base64 in both alphabets, and null for a field that is not set. Nested messages are in `$defs`, so
that they may be recursive.
"""

from typing import Any, Final

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from app.protocols.grpc.messages import is_well_known, is_wrapped

Json = dict[str, Any]

_MAX_MESSAGES: Final = 200
_MAX_FIELDS: Final = 2_000
_MAX_VALUES: Final = 500
_F: Final = FieldDescriptor
# An integer may be written with an exponent or a fraction of zeros: `1e3`, `5.0`.
_DECIMAL: Final = r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
_INT64: Final = {"type": ["integer", "string"], "format": "int64", "pattern": _DECIMAL}
_UINT64: Final = {"type": ["integer", "string"], "format": "uint64", "minimum": 0, "pattern": _DECIMAL}
_INT32: Final = {
    "type": ["integer", "string"],
    "minimum": -(2**31),
    "maximum": 2**31 - 1,
    "pattern": _DECIMAL,
}
_UINT32: Final = {"type": ["integer", "string"], "minimum": 0, "maximum": 2**32 - 1, "pattern": _DECIMAL}
_FLOAT: Final = {
    "type": ["number", "string"],
    "pattern": r"^(-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?|NaN|-?Infinity)$",
}
_BYTES: Final = {"type": "string", "contentEncoding": "base64", "pattern": "^[A-Za-z0-9+/_-]*={0,2}$"}
_SCALARS: Final[dict[int, Json]] = {
    _F.TYPE_DOUBLE: _FLOAT, _F.TYPE_FLOAT: _FLOAT,
    _F.TYPE_INT64: _INT64, _F.TYPE_SINT64: _INT64, _F.TYPE_SFIXED64: _INT64,
    _F.TYPE_UINT64: _UINT64, _F.TYPE_FIXED64: _UINT64,
    _F.TYPE_INT32: _INT32, _F.TYPE_SINT32: _INT32, _F.TYPE_SFIXED32: _INT32,
    _F.TYPE_UINT32: _UINT32, _F.TYPE_FIXED32: _UINT32,
    _F.TYPE_BOOL: {"type": "boolean"}, _F.TYPE_STRING: {"type": "string"}, _F.TYPE_BYTES: _BYTES,
}  # fmt: skip
_DURATION: Final = {"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]{1,9})?s$", "examples": ["1.5s"]}
_WELL_KNOWN: Final[dict[str, Json]] = {
    "Timestamp": {"type": "string", "format": "date-time"},
    "Duration": _DURATION,
    "FieldMask": {"type": "string", "description": "Names of fields, with commas between them."},
    "Struct": {"type": "object"},
    "Value": {},
    "ListValue": {"type": "array"},
    "Empty": {"type": "object", "properties": {}},
    "Any": {"type": "object", "properties": {"@type": {"type": "string"}}, "required": ["@type"]},
    "DoubleValue": {**_FLOAT, "type": ["number", "string", "null"]},
    "FloatValue": {**_FLOAT, "type": ["number", "string", "null"]},
    "Int64Value": {**_INT64, "type": ["integer", "string", "null"]},
    "UInt64Value": {**_UINT64, "type": ["integer", "string", "null"]},
    "Int32Value": {**_INT32, "type": ["integer", "string", "null"]},
    "UInt32Value": {**_UINT32, "type": ["integer", "string", "null"]},
    "BoolValue": {"type": ["boolean", "null"]},
    "StringValue": {"type": ["string", "null"]},
    "BytesValue": {**_BYTES, "type": ["string", "null"]},
}


def arguments_schema(descriptor: Descriptor, *, many: bool) -> Json:
    """Return the schema of a tool's inputs: the fields of its request, or with `many` the list `messages`."""
    schema = schema_of(descriptor, is_input=True)
    if many:
        inner = schema.pop("$defs", {})
        messages: Json = {"type": "array", "items": schema}
        whole: Json = {"type": "object", "properties": {"messages": messages}, "required": ["messages"]}
        return {**whole, "$defs": inner} if inner else whole
    if is_wrapped(descriptor):
        return {"type": "object", "properties": {"value": schema}, "required": ["value"]}
    return schema


def response_schema(descriptor: Descriptor, *, many: bool) -> Json:
    """Return the schema of a tool's outputs: a message, or with `many` a list of messages."""
    schema = schema_of(descriptor, is_input=False)
    if not many:
        return schema
    inner = schema.pop("$defs", {})
    listed: Json = {"type": "array", "items": schema}
    return {**listed, "$defs": inner} if inner else listed


def schema_of(descriptor: Descriptor, *, is_input: bool) -> Json:
    """Return the schema of one message; above 200 messages or 2,000 fields, the others are any object.

    A field of an input may be null, which means that it is not set.
    """
    if is_well_known(descriptor):
        return _well_known(descriptor)
    writer = _Writer(is_input=is_input)
    schema = writer.message(descriptor)
    while writer.waiting:
        name, one = writer.waiting.popitem()
        writer.defs[name] = {}
        writer.defs[name] = writer.message(one)
    return {**schema, "$defs": dict(sorted(writer.defs.items()))} if writer.defs else schema


class _Writer:
    def __init__(self, *, is_input: bool) -> None:
        self._is_input = is_input
        self.defs: dict[str, Json] = {}
        self.waiting: dict[str, Descriptor] = {}
        self._fields = 0

    def message(self, descriptor: Descriptor) -> Json:
        self._fields += len(descriptor.fields)
        if self._fields > _MAX_FIELDS:
            return {"type": "object"}
        properties = {field.json_name: self._member(field) for field in descriptor.fields}
        required = [field.json_name for field in descriptor.fields if field.is_required]
        schema: Json = {"type": "object", "properties": properties}
        return {**schema, "required": required} if required else schema

    def _member(self, field: FieldDescriptor) -> Json:
        schema = self._field(field)
        return _nullable(schema) if self._is_input and not field.is_required else schema

    def _field(self, field: FieldDescriptor) -> Json:
        entry = field.message_type
        if entry is not None and entry.GetOptions().map_entry:
            return {"type": "object", "additionalProperties": self._one(entry.fields_by_name["value"])}
        schema = self._one(field)
        if field.is_repeated:
            return {"type": "array", "items": schema}
        group = field.containing_oneof
        if group is not None and len(group.fields) > 1:
            others = ", ".join(one.json_name for one in group.fields[:20])
            return {**schema, "description": f"At most one of these may be present: {others}."}
        return schema

    def _one(self, field: FieldDescriptor) -> Json:
        if field.enum_type is not None:
            return _enum(field.enum_type)
        if field.message_type is None:
            return dict(_SCALARS.get(field.type, {}))
        message = field.message_type
        if is_well_known(message):
            return _well_known(message)
        name = message.full_name
        if name not in self.defs and name not in self.waiting:
            if len(self.defs) + len(self.waiting) >= _MAX_MESSAGES:
                return {"type": "object"}
            self.waiting[name] = message
        return {"$ref": f"#/$defs/{name}"}


def _enum(enum: EnumDescriptor) -> Json:
    if enum.full_name == "google.protobuf.NullValue":
        return {"type": "null"}
    names: Json = {"type": "string"}
    if len(enum.values) <= _MAX_VALUES:
        names["enum"] = [value.name for value in enum.values]
    # An open enum has unknown numbers, too.
    numbers: Json = {"type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1}
    if enum.is_closed:
        numbers = {"enum": sorted({value.number for value in enum.values})}
    return {"anyOf": [names, numbers]}


def _nullable(schema: Json) -> Json:
    """Return a schema that allows null as well."""
    kind = schema.get("type")
    if kind is not None:
        kinds = kind if isinstance(kind, list) else [kind]
        return schema if "null" in kinds else {**schema, "type": [*kinds, "null"]}
    if "anyOf" in schema:
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    if "$ref" in schema:
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        return {**rest, "anyOf": [{"$ref": schema["$ref"]}, {"type": "null"}]}
    return schema


def _well_known(message: Descriptor) -> Json:
    return dict(_WELL_KNOWN.get(message.name, {}))
