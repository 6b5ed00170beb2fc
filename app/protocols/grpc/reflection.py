"""Server reflection (grpc.reflection.v1, else v1alpha, which differs in its name only), within bounds."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError
from grpc_reflection.v1alpha import reflection_pb2

from app.errors import ResponseTooLarge, UpstreamMalformed, UpstreamRejected
from app.protocols.grpc.descriptors import Unusable, pool_of
from app.protocols.grpc.errors import upstream_answer
from app.protocols.grpc.rpc import RpcFailed

_PATH: Final = "/grpc.reflection.{}.ServerReflection/ServerReflectionInfo"
_UNIMPLEMENTED: Final = 12
_NOT_FOUND: Final = 5
# Those of the server itself, which are no tools.
_OF_SERVERS: Final = ("grpc.reflection.", "grpc.health.", "grpc.channelz.", "grpc.binarylog.")
_MAX_SERVICES: Final = 1_000
_MAX_FILES: Final = 5_000

# Sends a question to a path, and gives the answer.
Ask = Callable[[str, bytes], Awaitable[bytes]]
Files = dict[str, descriptor_pb2.FileDescriptorProto]


@dataclass(slots=True)
class Reflected:
    """What a server says of itself: its files by name, and the services that were asked for."""

    services: list[str] = field(default_factory=list)
    files: Files = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)


class Conversation:
    """Questions of reflection, and their answers, of which all may have `most` bytes together."""

    def __init__(self, ask: Callable[[bytes], Awaitable[bytes]], *, most: int) -> None:
        self._ask = ask
        self._left = most
        self._most = most

    async def services(self) -> list[str]:
        """The names of all services but the server's own."""
        answer = await self._asked(list_services="*")
        names = [one.name for one in answer.list_services_response.service]
        return [name for name in dict.fromkeys(names) if not name.startswith(_OF_SERVERS)]

    async def with_symbol(self, symbol: str) -> list[descriptor_pb2.FileDescriptorProto] | None:
        """The file that declares a symbol, None where the server knows none."""
        return self._files(await self._asked(file_containing_symbol=symbol))

    async def named(self, name: str) -> list[descriptor_pb2.FileDescriptorProto] | None:
        """A file by its name."""
        return self._files(await self._asked(file_by_filename=name))

    async def _asked(self, **question: str) -> Any:
        request = reflection_pb2.ServerReflectionRequest(**question)
        raw = await self._ask(request.SerializeToString())
        self._left -= len(raw)
        if self._left < 0:
            raise ResponseTooLarge(f"The server's description of itself has more than {self._most} bytes.")
        try:
            return reflection_pb2.ServerReflectionResponse.FromString(raw)
        except DecodeError:
            raise UpstreamMalformed("The answer of the server's reflection cannot be read.") from None

    def _files(self, answer: Any) -> list[descriptor_pb2.FileDescriptorProto] | None:
        kind = answer.WhichOneof("message_response")
        if kind == "error_response" and answer.error_response.error_code == _NOT_FOUND:
            return None
        if kind != "file_descriptor_response":
            raise UpstreamMalformed("The server's reflection refuses to describe what it lists.")
        try:
            raw = answer.file_descriptor_response.file_descriptor_proto
            return [descriptor_pb2.FileDescriptorProto.FromString(one) for one in raw]
        except DecodeError:
            raise UpstreamMalformed("The server's reflection describes what cannot be read.") from None


async def reflected(conversation: Conversation, service: str | None) -> Reflected:
    """The named service, or all of them, with every file that they need.

    A service may be named without its package where that is clear. Raises UpstreamRejected for one that is
    not there, ResponseTooLarge above 1,000 services or 5,000 files, and UpstreamMalformed.
    """
    found = Reflected()
    for name in await _wanted(conversation, service):
        files = await conversation.with_symbol(name)
        if files is None:
            found.left_out.append(name)
            continue
        found.services.append(name)
        _take(found.files, files)
    await _complete(conversation, found.files)
    return found


async def _wanted(conversation: Conversation, service: str | None) -> list[str]:
    if service is not None and "." in service:
        return [service]
    names = await conversation.services()
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
        raise UpstreamRejected(detail, response=upstream_answer(_NOT_FOUND, "NOT_FOUND", detail))
    return fitting or [service]


async def _complete(conversation: Conversation, files: Files) -> None:
    """Asks for what is imported and was not sent along."""
    asked: set[str] = set()
    waiting = list(files)
    while waiting:
        for name in files[waiting.pop()].dependency:
            if name in files or name in asked or name.startswith("google/protobuf/"):
                continue
            asked.add(name)
            if len(asked) > _MAX_FILES:
                raise ResponseTooLarge(f"The server's services need more than {_MAX_FILES} files.")
            more = await conversation.named(name) or []
            waiting += _take(files, more)


def _take(files: Files, more: Sequence[descriptor_pb2.FileDescriptorProto]) -> list[str]:
    new = [one for one in more if one.name not in files]
    files.update({one.name: one for one in new})
    if len(files) > _MAX_FILES:
        raise ResponseTooLarge(f"The server's services need more than {_MAX_FILES} files.")
    return [one.name for one in new]


def pool_without_holes(files: Files) -> Any:
    """A pool of what was sent; imports that the server does not have are left out, for most are options.

    Raises UpstreamMalformed.
    """
    for file in files.values():
        kept = [one for one in file.dependency if one in files or one.startswith("google/protobuf/")]
        if len(kept) < len(file.dependency):
            del file.dependency[:]
            file.dependency.extend(kept)
            del file.public_dependency[:]
            del file.weak_dependency[:]
    try:
        return pool_of(files)
    except Unusable as error:
        raise UpstreamMalformed(f"The server's description of itself has {error}.") from None


async def talk(ask: Ask, service: str | None, *, most: int) -> Reflected:
    """Ask a server, in either version of reflection. Raises RpcFailed, and what `reflected` does."""
    try:
        return await reflected(Conversation(partial(ask, _PATH.format("v1")), most=most), service)
    except RpcFailed as failed:
        if failed.code != _UNIMPLEMENTED:
            raise
    return await reflected(Conversation(partial(ask, _PATH.format("v1alpha")), most=most), service)
