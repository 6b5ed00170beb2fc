"""Reads a message: the checks of its body, and of the headers that mirror the body, one after the other.

The order is that of the specification (2026-07-28): the first check that fails is the one that is reported.
The header `MCP-Protocol-Version` decides which rules apply: without it, or with a legacy revision, those of
the legacy revisions.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from app.agents.mcp.header_values import decode_value, read_text
from app.agents.mcp.jsonrpc import (
    CAPABILITIES_KEY,
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    LEGACY_HEADERS,
    PARSE_ERROR,
    SERVED,
    UNSUPPORTED_VERSION,
    VERSION_KEY,
    Id,
    RpcError,
    RpcRequest,
)
from app.calls.arguments.parsing import parse_arguments
from app.core.errors import BadRequest

_VERSION: Final = b"mcp-protocol-version"
_METHOD: Final = b"mcp-method"
_NAME: Final = b"mcp-name"
_ROUTING: Final = (_VERSION, _METHOD, _NAME)
_NAMED: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_NONE: Final[Mapping[str, Any]] = {}

RawHeaders = Sequence[tuple[bytes, bytes]]


class Message:
    """What is known of a message: for the response to one that cannot be served, its id and its era."""

    __slots__ = ("id", "is_modern")

    def __init__(self) -> None:
        self.id: Id | None = None
        self.is_modern = False


def read_message(
    body: bytes, head: Mapping[bytes, bytes], raw: RawHeaders, message: Message, *, max_values: int
) -> RpcRequest | None:
    """Return the request of a body, None for a notification; set `message` as far as it was read.

    `head` are the headers by name, `raw` each as it was sent. `max_values` is the limit of
    `parse_arguments`. Raise RpcError, and TooLarge for more values than that.
    """
    version = read_text(head[_VERSION]) if _VERSION in head else None
    is_modern = message.is_modern = version is not None and version not in LEGACY_HEADERS
    value = _parse(body, max_values)
    if not isinstance(value, dict):
        raise RpcError(INVALID_REQUEST, "Send one JSON-RPC message; batches are not served.", status=400)
    request_id = value.get("id")
    message.id = request_id if isinstance(request_id, str) or type(request_id) is int else None
    method = value.get("method")
    if value.get("jsonrpc") != "2.0" or not isinstance(method, str):
        raise RpcError(
            INVALID_REQUEST, 'A request has "jsonrpc": "2.0" and a "method" of type string.', status=400
        )
    if "id" not in value:
        return None
    if message.id is None:
        raise RpcError(INVALID_REQUEST, 'The "id" of a request is a string or an integer.', status=400)
    params = value.get("params", _NONE)
    if not isinstance(params, dict):
        if params is not _NONE:
            raise RpcError(INVALID_PARAMS, '"params" is an object.')
        params = {}
    meta = params.get("_meta", _NONE)
    if is_modern:
        _check_modern(method, params, head, raw, version or "")
    elif not isinstance(meta, dict):
        meta = _NONE
    elif version is None and VERSION_KEY in meta:
        raise RpcError(HEADER_MISMATCH, "The header MCP-Protocol-Version is missing.", status=400)
    return RpcRequest(message.id, method, params, meta, is_modern)


def _parse(body: bytes, max_values: int) -> Any:
    if not body:
        raise RpcError(PARSE_ERROR, "The body is empty.", status=400)
    try:
        return parse_arguments(body, max_values)
    except BadRequest as error:
        pointers = [one.as_json() for one in error.errors if one.pointer]
        raise RpcError(
            PARSE_ERROR, error.detail, data={"errors": pointers} if pointers else None, status=400
        ) from None


def _check_modern(
    method: str, params: Mapping[str, Any], head: Mapping[bytes, bytes], raw: RawHeaders, version: str
) -> None:
    """Check what the modern revision demands of each request."""
    if len(head) < len(raw):
        names = [name for name, _ in raw if name in _ROUTING]
        if len(set(names)) < len(names):
            raise _create_mismatch_error("A routing header is repeated.")
    meta = params.get("_meta")
    if not isinstance(meta, dict):
        raise _create_params_error(
            '"params._meta" is an object with the protocol version and the capabilities.'
        )
    requested = meta.get(VERSION_KEY)
    if not isinstance(requested, str):
        raise _create_params_error(f'"params._meta" has no string "{VERSION_KEY}".')
    if not isinstance(meta.get(CAPABILITIES_KEY), dict):
        raise _create_params_error(f'"params._meta" has no object "{CAPABILITIES_KEY}".')
    if version != requested:
        raise _create_mismatch_error("The header MCP-Protocol-Version differs from the version in the body.")
    if _METHOD not in head or read_text(head[_METHOD]) != method:
        raise _create_mismatch_error("The header Mcp-Method differs from the method in the body.")
    _check_name(method, params, head)
    if requested not in SERVED:
        raise RpcError(
            UNSUPPORTED_VERSION,
            "This protocol version is not served.",
            data={"supported": list(SERVED), "requested": requested},
            status=400,
        )


def _check_name(method: str, params: Mapping[str, Any], head: Mapping[bytes, bytes]) -> None:
    member = _NAMED.get(method)
    if member is None:
        return
    named = params.get(member)
    if not isinstance(named, str):
        # A request without the member is invalid, whatever its headers are.
        raise _create_params_error(f'"params.{member}" is a string.')
    if _NAME not in head or decode_value(head[_NAME]) != named:
        raise _create_mismatch_error(f"The header Mcp-Name differs from params.{member} in the body.")


def _create_params_error(detail: str) -> RpcError:
    return RpcError(INVALID_PARAMS, detail, status=400)


def _create_mismatch_error(detail: str) -> RpcError:
    return RpcError(HEADER_MISMATCH, detail, status=400)
