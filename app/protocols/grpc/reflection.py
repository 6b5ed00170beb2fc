"""Server reflection (grpc.reflection.v1, else v1alpha, which differs in its name only), within limits."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError
from grpc_reflection.v1alpha import reflection_pb2

from app.core.errors import ResponseTooLarge, UpstreamMalformed, UpstreamRejected
from app.protocols.grpc.descriptors import Unusable, build_pool
from app.protocols.grpc.errors import upstream_response
from app.protocols.grpc.rpc import RpcFailed

_PATH: Final = "/grpc.reflection.{}.ServerReflection/ServerReflectionInfo"
_UNIMPLEMENTED: Final = 12
_NOT_FOUND: Final = 5
# Services of the server itself, which are not tools.
_SERVER_SERVICES: Final = ("grpc.reflection.", "grpc.health.", "grpc.channelz.", "grpc.binarylog.")
_MAX_SERVICES: Final = 1_000
_MAX_FILES: Final = 5_000

# Send a message to a path and return the response.
SendRequest = Callable[[str, bytes], Awaitable[bytes]]
Files = dict[str, descriptor_pb2.FileDescriptorProto]


@dataclass(slots=True)
class ReflectedServices:
    """The requested services, all files that they need by name, and services that could not be described."""

    services: list[str] = field(default_factory=list)
    files: Files = field(default_factory=dict)
    omitted: list[str] = field(default_factory=list)


class ReflectionClient:
    """A client of reflection. All responses together may have `max_bytes` bytes, else ResponseTooLarge."""

    def __init__(self, send: Callable[[bytes], Awaitable[bytes]], *, max_bytes: int) -> None:
        self._send = send
        self._remaining_bytes = max_bytes
        self._max_bytes = max_bytes

    async def services(self) -> list[str]:
        """Return the names of all services except those of the server itself, such as reflection."""
        response = await self._exchange(list_services="*")
        names = [one.name for one in response.list_services_response.service]
        return [name for name in dict.fromkeys(names) if not name.startswith(_SERVER_SERVICES)]

    async def file_with_symbol(self, symbol: str) -> list[descriptor_pb2.FileDescriptorProto] | None:
        """Return the file that declares a symbol, with any that it imports; None where there is none."""
        return self._files(await self._exchange(file_containing_symbol=symbol))

    async def file_named(self, name: str) -> list[descriptor_pb2.FileDescriptorProto] | None:
        """Return a file by its name, with any that it imports; None where there is none."""
        return self._files(await self._exchange(file_by_filename=name))

    async def _exchange(self, **query: str) -> Any:
        request = reflection_pb2.ServerReflectionRequest(**query)
        raw = await self._send(request.SerializeToString())
        self._remaining_bytes -= len(raw)
        if self._remaining_bytes < 0:
            raise ResponseTooLarge(
                f"The server's description of itself has more than {self._max_bytes} bytes."
            )
        try:
            return reflection_pb2.ServerReflectionResponse.FromString(raw)
        except DecodeError:
            raise UpstreamMalformed("The response of the server's reflection cannot be read.") from None

    def _files(self, response: Any) -> list[descriptor_pb2.FileDescriptorProto] | None:
        kind = response.WhichOneof("message_response")
        if kind == "error_response" and response.error_response.error_code == _NOT_FOUND:
            return None
        if kind != "file_descriptor_response":
            raise UpstreamMalformed("The server's reflection does not describe a service that it lists.")
        try:
            raw = response.file_descriptor_response.file_descriptor_proto
            return [descriptor_pb2.FileDescriptorProto.FromString(one) for one in raw]
        except DecodeError:
            raise UpstreamMalformed("A file of the server's reflection cannot be read.") from None


async def read_services(client: ReflectionClient, service: str | None) -> ReflectedServices:
    """Return the named service, or all services, with every file that they need.

    A service may be named without its package where that is unambiguous. Raise UpstreamRejected where it is
    not, ResponseTooLarge above 1,000 services or 5,000 files, and UpstreamMalformed.
    """
    found = ReflectedServices()
    for name in await _select_services(client, service):
        files = await client.file_with_symbol(name)
        if files is None:
            found.omitted.append(name)
            continue
        found.services.append(name)
        _add_files(found.files, files)
    await _fetch_imports(client, found.files)
    return found


async def _select_services(client: ReflectionClient, service: str | None) -> list[str]:
    if service is not None and "." in service:
        return [service]
    names = await client.services()
    if service is None:
        if len(names) > _MAX_SERVICES:
            detail = f"The server has more than {_MAX_SERVICES} services: name one as service_name."
            raise ResponseTooLarge(detail)
        return names
    fitting = [name for name in names if name == service] or [
        name for name in names if name.rpartition(".")[2] == service
    ]
    if len(fitting) > 1:
        detail = f"Several services of the server are called {service}: name it with its package."
        raise UpstreamRejected(detail, response=upstream_response(_NOT_FOUND, "NOT_FOUND", detail))
    return fitting or [service]


async def _fetch_imports(client: ReflectionClient, files: Files) -> None:
    """Add the imported files that the server has not sent along."""
    requested: set[str] = set()
    waiting = list(files)
    while waiting:
        for name in files[waiting.pop()].dependency:
            if name in files or name in requested or name.startswith("google/protobuf/"):
                continue
            requested.add(name)
            if len(requested) > _MAX_FILES:
                raise ResponseTooLarge(f"The server's services need more than {_MAX_FILES} files.")
            more = await client.file_named(name) or []
            waiting += _add_files(files, more)


def _add_files(files: Files, more: Sequence[descriptor_pb2.FileDescriptorProto]) -> list[str]:
    new = [one for one in more if one.name not in files]
    files.update({one.name: one for one in new})
    if len(files) > _MAX_FILES:
        raise ResponseTooLarge(f"The server's services need more than {_MAX_FILES} files.")
    return [one.name for one in new]


def tolerant_pool(files: Files) -> Any:
    """Return a pool of the server's files, without imports that it does not have: most declare options only.

    Raise UpstreamMalformed where the files cannot be used.
    """
    for file in files.values():
        known = [one for one in file.dependency if one in files or one.startswith("google/protobuf/")]
        if len(known) < len(file.dependency):
            del file.dependency[:]
            file.dependency.extend(known)
            del file.public_dependency[:]
            del file.weak_dependency[:]
    try:
        return build_pool(files)
    except Unusable as error:
        raise UpstreamMalformed(f"The server's description of itself has {error}.") from None


async def reflect(send: SendRequest, service: str | None, *, max_bytes: int) -> ReflectedServices:
    """Return the services of a server, by v1 or else v1alpha; raise RpcFailed and what `read_services` does.

    `send` sends a message to a path and returns the response.
    """
    try:
        return await read_services(
            ReflectionClient(partial(send, _PATH.format("v1")), max_bytes=max_bytes), service
        )
    except RpcFailed as failed:
        if failed.code != _UNIMPLEMENTED:
            raise
    return await read_services(
        ReflectionClient(partial(send, _PATH.format("v1alpha")), max_bytes=max_bytes), service
    )
