"""The origin (RFC 6454) of a call template: credentials are allowed by origin, and an origin is approved,
guarded and counted as one upstream.

`https://host[:port]` and the like for URLs (no port that the scheme implies), `tcp://host:port` for sockets,
`grpcs://` for gRPC over TLS, `cli:///usr/bin/x` and `stdio:///usr/bin/x` for programs, `file:///srv/x` for
files.
"""

from collections.abc import Mapping
from typing import Any

from app.core.errors import InvalidInput
from app.protocols.call_templates import protocol_of
from app.protocols.registry import PROTOCOLS


def template_origin(fields: Mapping[str, Any]) -> str:
    """Return the one origin of a template in 1.x spelling, its variables substituted.

    Raise InvalidInput, with pointers into the template, where there is none that is fixed and legal.
    """
    protocol = protocol_of(fields)
    record = PROTOCOLS.get(protocol)
    return f"{protocol}://" if record is None else record.origin(fields)


def destination(fields: Mapping[str, Any]) -> str:
    """Return the origin of a stored template, or where its variables decide that, the text that names it."""
    try:
        return template_origin(fields)
    except InvalidInput:
        return PROTOCOLS[protocol_of(fields)].address(fields)


def is_content(fields: Mapping[str, Any]) -> bool:
    """Return whether the template is a document or a response itself, so that no request is sent."""
    record = PROTOCOLS.get(protocol_of(fields))
    return record is not None and record.is_content


def parts_of(fields: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return one template for each server that the template names."""
    record = PROTOCOLS.get(protocol_of(fields))
    return [dict(fields)] if record is None else record.parts(fields)
