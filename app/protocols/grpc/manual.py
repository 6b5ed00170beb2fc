"""Conversion of a gRPC server's reflection into a UTCP manual.

Descriptions of tools are made of names only: reflection sends no comments.
"""

import re
from typing import Any, Final

from google.protobuf.descriptor import Descriptor

from app.core import exact_json
from app.core.errors import FieldError, InvalidInput, ResponseTooLarge
from app.protocols.grpc.descriptor_pruner import DescriptorPruner, encode_descriptors
from app.protocols.grpc.descriptors import Rpc, Unusable, rpc
from app.protocols.grpc.messages import check_json_size
from app.protocols.grpc.reflection import ReflectedServices, tolerant_pool
from app.protocols.grpc.schemas import arguments_schema, response_schema

_MAX_TOOLS: Final = 5_000
_WORDS: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_KINDS: Final = {
    "unary": "",
    "server_streaming": " The response is a stream of messages.",
    "client_streaming": " It takes a list of messages.",
    "bidi_streaming": " It takes a list of messages, and the response is a stream of messages.",
}


def build_manual(found: ReflectedServices, method: str | None, *, max_bytes: int) -> bytes:
    """Return the UTCP manual of the services, as JSON: a tool for each method, or for those called `method`.

    Slow for large services: run it in a thread. Raise InvalidInput where there is no such method,
    ResponseTooLarge above `max_bytes` bytes or 5,000 methods, and UpstreamMalformed for descriptors that
    cannot be used.
    """
    pool = tolerant_pool(found.files)
    rpcs: list[Rpc] = []
    for name in found.services:
        try:
            service = pool.FindServiceByName(name)
        except KeyError:
            continue
        rpcs += [rpc(one, pool) for one in service.methods if method in (None, one.name)]
        if len(rpcs) > _MAX_TOOLS:
            raise ResponseTooLarge(f"The server has more than {_MAX_TOOLS} methods: name a service.")
    if not rpcs:
        at = "/method_name" if method else "/service_name"
        raise InvalidInput("The server has no such method.", errors=[FieldError(at, "Name one that it has.")])
    short: dict[str, set[str]] = {}
    for one in rpcs:
        short.setdefault(one.service.rpartition(".")[2], set()).add(one.service)
    pruner = DescriptorPruner()
    tools: list[bytes] = []
    size = 0
    for one in rpcs:
        last = one.service.rpartition(".")[2]
        tool = _tool(one, last if len(short[last]) == 1 else one.service, pruner)
        check_json_size(tool, max_bytes)
        raw = exact_json.dumps(tool)
        size += len(raw)
        if size > max_bytes:
            raise ResponseTooLarge(
                f"The tools of the server have more than {max_bytes} bytes: name a service."
            )
        tools.append(raw)
    return b'{"utcp_version":"1.0.1","manual_version":"1.0.0","tools":[%s]}' % b",".join(tools)


def _tool(rpc: Rpc, service: str, pruner: DescriptorPruner) -> dict[str, Any]:
    template: dict[str, Any] = {"service_name": rpc.service, "method_name": rpc.name}
    if rpc.server_streaming:
        template["server_streaming"] = True
    try:
        descriptors = encode_descriptors(rpc, pruner)
    except Unusable:
        descriptors = None
    return {
        "name": f"{service}.{rpc.name}",
        "description": _description(rpc),
        "tags": [rpc.service.rpartition(".")[2]],
        "inputs": arguments_schema(rpc.request, many=rpc.client_streaming),
        "outputs": response_schema(rpc.response, many=rpc.server_streaming),
        "tool_call_template": template | ({"descriptors": descriptors} if descriptors else {}),
    }


def _description(rpc: Rpc) -> str:
    words = " ".join(word if word.isupper() else word.lower() for word in _WORDS.findall(rpc.name))
    first = f"{words[:1].upper()}{words[1:]}" or rpc.name
    takes, returns = _names(rpc.request), _names(rpc.response)
    parts = [f"{first}: the method {rpc.name} of the gRPC service {rpc.service}."]
    parts += [f"Takes {takes}."] if takes else []
    parts += [f"Returns {returns}."] if returns else []
    return " ".join(parts) + _KINDS[rpc.kind]


def _names(descriptor: Descriptor) -> str:
    names = [field.name.replace("_", " ") for field in descriptor.fields]
    if descriptor.full_name.startswith("google.protobuf."):
        return ""
    more = f" and {len(names) - 12} more" if len(names) > 12 else ""
    return ", ".join(names[:12]) + more
