"""Pruning of descriptors to what one method needs, which is stored with its tool."""

import base64
import contextlib
from collections.abc import Iterable
from typing import Any, Final

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import Descriptor, FileDescriptor

from app.protocols.grpc.descriptors import IDEMPOTENT, OWN_FILES, SAFE, Rpc, Unusable

_MAX_STORED_BYTES: Final = 256 << 10
"""Bytes of a method's descriptors that are stored; larger ones are fetched by reflection."""
_MAX_TYPES: Final = 2_000
_ANY: Final = "google.protobuf.Any"
# Options that change how messages are encoded; the others are for other programs.
_RETAINED_OPTIONS: Final = frozenset(
    {"features", "map_entry", "packed", "allow_alias", "message_set_wire_format"}
)


class DescriptorPruner:
    """Extracts methods from one pool; types that several methods use are converted once."""

    def __init__(self) -> None:
        self._bare: dict[str, Any] = {}
        self._uses: dict[str, tuple[Any, ...]] = {}
        self._heads: dict[str, descriptor_pb2.FileDescriptorProto] = {}

    def takes_any(self, rpc: Rpc) -> bool:
        """Return whether a message of the method may hold an Any; raise as `prune` does."""
        return any(one.full_name == _ANY for one in self._reachable((_top(rpc.request), _top(rpc.response))))

    def prune(self, rpc: Rpc, *, for_any: bool = False) -> descriptor_pb2.FileDescriptorSet:
        """Return the files of a method, with its service and the types of its messages only.

        `for_any`: also with all messages of these files and of those that they import, which an Any may hold.
        Raise Unusable for a method that needs more than 2,000 types.
        """
        service = rpc.pool.FindServiceByName(rpc.service)
        begin: list[Any] = [_top(rpc.request), _top(rpc.response)]
        if for_any:
            begin += _messages_of_files((service.file, rpc.request.file, rpc.response.file))
        needed_types = {one.full_name: one for one in self._reachable(begin)}
        files: dict[str, descriptor_pb2.FileDescriptorProto] = {}
        imports: dict[str, set[str]] = {}
        for one in needed_types.values():
            file = self._file(files, one.file)
            (file.message_type if isinstance(one, Descriptor) else file.enum_type).append(self._proto(one))
            uses = {use.file.name for use in self._used_types(one)}
            imports.setdefault(one.file.name, set()).update(uses)
        file = self._file(files, service.file)
        _add_service(file, rpc)
        uses = {rpc.request.file.name, rpc.response.file.name}
        imports.setdefault(service.file.name, set()).update(uses)
        for name, file in files.items():
            file.dependency.extend(sorted(imports[name] - {name}))
        found = [files[name] for name in sorted(files) if name not in OWN_FILES]
        return descriptor_pb2.FileDescriptorSet(file=found)

    def _reachable(self, begin: Iterable[Any]) -> list[Any]:
        """Return all top-level messages and enums that these reference, directly or indirectly."""
        found: dict[str, Any] = {}
        waiting = list(begin)
        while waiting:
            one = waiting.pop()
            if one.full_name not in found:
                found[one.full_name] = one
                waiting += self._used_types(one)
            if len(found) > _MAX_TYPES:
                raise Unusable("too many types")
        return list(found.values())

    def _used_types(self, top: Any) -> tuple[Any, ...]:
        cached = self._uses.get(top.full_name)
        if cached is None:
            found: dict[str, Any] = {}
            waiting = [top] if isinstance(top, Descriptor) else []
            while waiting:
                message = waiting.pop()
                waiting += message.nested_types
                for field in message.fields:
                    used = field.message_type or field.enum_type
                    if used is not None:
                        used = _top(used)
                        found[used.full_name] = used
            cached = self._uses[top.full_name] = tuple(found.values())
        return cached

    def _file(self, files: dict[str, Any], file: FileDescriptor) -> descriptor_pb2.FileDescriptorProto:
        file_proto = files.get(file.name)
        if file_proto is None:
            # A copy of a whole file costs a millisecond for each thousand methods.
            if file.name not in self._heads:
                self._heads[file.name] = _head(file)
            file_proto = files[file.name] = descriptor_pb2.FileDescriptorProto()
            file_proto.CopyFrom(self._heads[file.name])
        return file_proto

    def _proto(self, top: Any) -> Any:
        cached = self._bare.get(top.full_name)
        if cached is None:
            message = isinstance(top, Descriptor)
            cached = descriptor_pb2.DescriptorProto() if message else descriptor_pb2.EnumDescriptorProto()
            top.CopyToProto(cached)
            _strip_message(cached) if message else _strip_enum(cached)
            self._bare[top.full_name] = cached
        return cached


def encode_descriptors(rpc: Rpc, pruner: "DescriptorPruner") -> str | None:
    """Return the pruned descriptors of a method as base64 of a FileDescriptorSet; None above 256 KiB.

    Those of a method that may hold an Any have what it may hold, as far as there is room.
    """
    if pruner.takes_any(rpc):
        with contextlib.suppress(Unusable):
            raw = pruner.prune(rpc, for_any=True).SerializeToString(deterministic=True)
            if len(raw) <= _MAX_STORED_BYTES:
                return base64.b64encode(raw).decode()
    raw = pruner.prune(rpc).SerializeToString(deterministic=True)
    return base64.b64encode(raw).decode() if len(raw) <= _MAX_STORED_BYTES else None


def _messages_of_files(files: Iterable[FileDescriptor]) -> list[Any]:
    """Return the top-level messages of files, and of all that they import, but for those of the library."""
    seen: dict[str, FileDescriptor] = {}
    waiting = list(files)
    while waiting:
        file = waiting.pop()
        if file.name not in seen and file.name not in OWN_FILES:
            seen[file.name] = file
            waiting += file.dependencies
    return [message for file in seen.values() for message in file.message_types_by_name.values()]


def _top(descriptor: Any) -> Any:
    while descriptor.containing_type is not None:
        descriptor = descriptor.containing_type
    return descriptor


def _head(file: FileDescriptor) -> descriptor_pb2.FileDescriptorProto:
    whole = descriptor_pb2.FileDescriptorProto()
    file.CopyToProto(whole)
    head = descriptor_pb2.FileDescriptorProto(name=whole.name, package=whole.package)
    if whole.syntax:
        head.syntax = whole.syntax
    if whole.edition:
        head.edition = whole.edition
    if whole.options.HasField("features"):
        head.options.features.CopyFrom(whole.options.features)
    return head


def _add_service(file: descriptor_pb2.FileDescriptorProto, rpc: Rpc) -> None:
    package, _, name = rpc.service.rpartition(".")
    if package != file.package:
        raise Unusable("a service outside of its package")
    method = file.service.add(name=name).method.add(
        name=rpc.name,
        input_type=f".{rpc.request.full_name}",
        output_type=f".{rpc.response.full_name}",
        client_streaming=rpc.client_streaming,
        server_streaming=rpc.server_streaming,
    )
    if rpc.idempotent:
        method.options.idempotency_level = SAFE if rpc.safe else IDEMPOTENT


def _strip_message(message: Any) -> None:
    waiting = [message]
    while waiting:
        one = waiting.pop()
        one.ClearField("extension")
        _strip_options(one)
        for part in (*one.field, *one.oneof_decl):
            _strip_options(part)
        for enum in one.enum_type:
            _strip_enum(enum)
        waiting += one.nested_type


def _strip_enum(enum: Any) -> None:
    _strip_options(enum)
    for value in enum.value:
        _strip_options(value)


def _strip_options(part: Any) -> None:
    if not part.HasField("options"):
        return
    options = part.options
    retained = {field.name: value for field, value in options.ListFields() if field.name in _RETAINED_OPTIONS}
    bare = type(options)()
    for name, value in retained.items():
        if name == "features":
            bare.features.CopyFrom(value)
        else:
            setattr(bare, name, value)
    part.ClearField("options")
    if retained:
        part.options.CopyFrom(bare)
