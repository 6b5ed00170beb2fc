"""Descriptions of gRPC methods, read from serialised descriptors.

An upstream's own `google.protobuf` files are never used: those types are the library's.
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf import (
    any_pb2,
    api_pb2,
    descriptor_pb2,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    source_context_pb2,
    struct_pb2,
    timestamp_pb2,
    type_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor import Descriptor, MethodDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

OWN_FILES: Final[Mapping[str, Any]] = {
    module.DESCRIPTOR.name: module.DESCRIPTOR
    for module in (
        any_pb2, source_context_pb2, type_pb2, api_pb2, descriptor_pb2, duration_pb2, empty_pb2,
        field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2,
    )
}  # fmt: skip
_ANY: Final = any_pb2.DESCRIPTOR.name
# None of these imports another file.
_WELL_KNOWN_FILES: Final = tuple(
    module.DESCRIPTOR.name
    for module in (duration_pb2, empty_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2)
)
_OWN_PACKAGE: Final = "google.protobuf"
SAFE: Final = descriptor_pb2.MethodOptions.NO_SIDE_EFFECTS
IDEMPOTENT: Final = descriptor_pb2.MethodOptions.IDEMPOTENT


class Unusable(Exception):
    """Raised for descriptors that cannot be used; the text names the defect, e.g. `a missing import`."""


@dataclass(frozen=True, slots=True)
class Rpc:
    """One method. `safe` and `idempotent` are its idempotency_level."""

    service: str
    name: str
    request: Descriptor
    response: Descriptor
    client_streaming: bool
    server_streaming: bool
    safe: bool
    idempotent: bool
    pool: DescriptorPool

    @property
    def path(self) -> str:
        """The `:path` of its requests (gRPC over HTTP/2, Path)."""
        return f"/{self.service}/{self.name}"

    @property
    def kind(self) -> str:
        """Its kind in gRPC's terms: unary, client_streaming, server_streaming or bidi_streaming."""
        if self.client_streaming:
            return "bidi_streaming" if self.server_streaming else "client_streaming"
        return "server_streaming" if self.server_streaming else "unary"


def build_pool(files: Mapping[str, descriptor_pb2.FileDescriptorProto]) -> DescriptorPool:
    """Return a pool of these files, which are given by name; raise Unusable."""
    pool = DescriptorPool()
    added: set[str] = set()
    for name in files:
        # Depth first without recursion: a chain of imports may be of any length.
        path = [name]
        seen = {name}
        while path:
            last = path[-1]
            proto = files.get(last)
            needed = _dependencies(last, proto)
            missing = [one for one in needed if one not in added]
            if not missing:
                path.pop()
                if last not in added:
                    added.add(last)
                    _add(pool, last, proto)
            elif missing[0] in seen:
                raise Unusable("circular imports")
            else:
                seen.add(missing[0])
                path.append(missing[0])
    if _ANY in added:
        # An Any may hold a well-known type that no file imports.
        for name in _WELL_KNOWN_FILES:
            if name not in added:
                _add(pool, name, None)
    return pool


def find_rpc(pool: DescriptorPool, service: str, method: str) -> Rpc | None:
    """Return a method of a service by their names, None where the pool has none."""
    try:
        found = pool.FindServiceByName(service).methods_by_name.get(method)
    except KeyError:
        return None
    return None if found is None else rpc(found, pool)


def rpc(method: MethodDescriptor, pool: DescriptorPool) -> Rpc:
    """Return the description of a method, with its idempotency level, from its descriptor in `pool`."""
    level = method.GetOptions().idempotency_level
    return Rpc(
        service=method.containing_service.full_name,
        name=method.name,
        request=method.input_type,
        response=method.output_type,
        client_streaming=method.client_streaming,
        server_streaming=method.server_streaming,
        safe=level == SAFE,
        idempotent=level in (SAFE, IDEMPOTENT),
        pool=pool,
    )


def read_descriptors(text: str) -> DescriptorPool:
    """Return the pool of a FileDescriptorSet in base64; raise Unusable."""
    try:
        found = descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, DecodeError):
        raise Unusable("text that is not a FileDescriptorSet in base64") from None
    return build_pool({file.name: file for file in found.file})


def _dependencies(name: str, proto: descriptor_pb2.FileDescriptorProto | None) -> list[str]:
    if name in OWN_FILES:
        return [one.name for one in OWN_FILES[name].dependencies]
    if proto is None:
        raise Unusable("a missing import")
    return list(proto.dependency)


def _add(pool: DescriptorPool, name: str, proto: descriptor_pb2.FileDescriptorProto | None) -> None:
    if name in OWN_FILES:
        pool.AddSerializedFile(OWN_FILES[name].serialized_pb)
        return
    assert proto is not None  # noqa: S101 - its dependencies were read.
    if f"{proto.package}.".startswith(f"{_OWN_PACKAGE}."):
        raise Unusable("a file of its own in the package google.protobuf")
    try:
        pool.AddSerializedFile(proto.SerializeToString())
    except (TypeError, ValueError, DecodeError):
        raise Unusable("a file that cannot be used") from None
