import datetime

from google.protobuf import any_pb2 as _any_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CommandRequest(_message.Message):
    __slots__ = ("command_id", "command_name", "arguments", "metadata")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    COMMAND_ID_FIELD_NUMBER: _ClassVar[int]
    COMMAND_NAME_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    command_id: str
    command_name: str
    arguments: _any_pb2.Any
    metadata: _containers.ScalarMap[str, str]
    def __init__(self, command_id: _Optional[str] = ..., command_name: _Optional[str] = ..., arguments: _Optional[_Union[_any_pb2.Any, _Mapping]] = ..., metadata: _Optional[_Mapping[str, str]] = ...) -> None: ...

class CommandResponse(_message.Message):
    __slots__ = ("command_id", "status", "result", "error", "metadata")
    class Status(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STATUS_UNSPECIFIED: _ClassVar[CommandResponse.Status]
        SUCCESS: _ClassVar[CommandResponse.Status]
        ERROR: _ClassVar[CommandResponse.Status]
        INVALID_ARGUMENT: _ClassVar[CommandResponse.Status]
        NOT_FOUND: _ClassVar[CommandResponse.Status]
        UNAUTHENTICATED: _ClassVar[CommandResponse.Status]
        PERMISSION_DENIED: _ClassVar[CommandResponse.Status]
        TIMEOUT: _ClassVar[CommandResponse.Status]
        RATE_LIMITED: _ClassVar[CommandResponse.Status]
        UNAVAILABLE: _ClassVar[CommandResponse.Status]
        CANCELLED: _ClassVar[CommandResponse.Status]
    STATUS_UNSPECIFIED: CommandResponse.Status
    SUCCESS: CommandResponse.Status
    ERROR: CommandResponse.Status
    INVALID_ARGUMENT: CommandResponse.Status
    NOT_FOUND: CommandResponse.Status
    UNAUTHENTICATED: CommandResponse.Status
    PERMISSION_DENIED: CommandResponse.Status
    TIMEOUT: CommandResponse.Status
    RATE_LIMITED: CommandResponse.Status
    UNAVAILABLE: CommandResponse.Status
    CANCELLED: CommandResponse.Status
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    COMMAND_ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    command_id: str
    status: CommandResponse.Status
    result: _any_pb2.Any
    error: str
    metadata: _containers.ScalarMap[str, str]
    def __init__(self, command_id: _Optional[str] = ..., status: _Optional[_Union[CommandResponse.Status, str]] = ..., result: _Optional[_Union[_any_pb2.Any, _Mapping]] = ..., error: _Optional[str] = ..., metadata: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Event(_message.Message):
    __slots__ = ("event_name", "payload", "metadata")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    EVENT_NAME_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    event_name: str
    payload: _any_pb2.Any
    metadata: _containers.ScalarMap[str, str]
    def __init__(self, event_name: _Optional[str] = ..., payload: _Optional[_Union[_any_pb2.Any, _Mapping]] = ..., metadata: _Optional[_Mapping[str, str]] = ...) -> None: ...

class UbpMessage(_message.Message):
    __slots__ = ("message_id", "sent_at", "command_request", "command_response", "event", "metadata")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    SENT_AT_FIELD_NUMBER: _ClassVar[int]
    COMMAND_REQUEST_FIELD_NUMBER: _ClassVar[int]
    COMMAND_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    message_id: str
    sent_at: _timestamp_pb2.Timestamp
    command_request: CommandRequest
    command_response: CommandResponse
    event: Event
    metadata: _containers.ScalarMap[str, str]
    def __init__(self, message_id: _Optional[str] = ..., sent_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., command_request: _Optional[_Union[CommandRequest, _Mapping]] = ..., command_response: _Optional[_Union[CommandResponse, _Mapping]] = ..., event: _Optional[_Union[Event, _Mapping]] = ..., metadata: _Optional[_Mapping[str, str]] = ...) -> None: ...
