"""Decoding and validating the response of a call, where its provider or its client asks for it.

A decoded response is JSON, whatever the upstream sent; one that cannot be decoded is passed on as it is. A
validated response has the header `X-Response-Violations`: how many values do not fit the output schema of the
tool, and where the first of them are. The client gets the response all the same, and the call is recorded
with the outcome `invalid-response`.
"""

import asyncio
from typing import Any, Final
from urllib.parse import quote

from app.calls.context import CallContext
from app.core import exact_json
from app.core.media_types import is_json, parse_essence
from app.formats.json_schema.validator import Violations
from app.protocols.base import BODY_METADATA_HEADERS, Result
from app.protocols.responses.reader import MAX_DECODED, NotDecodable, ResponseReader
from app.protocols.responses.rule import DECODE, VALIDATE, ResponsePreferences
from app.protocols.shared.redirects import is_redirect

VIOLATIONS_HEADER: Final = "X-Response-Violations"
APPLIED_HEADER: Final = "Preference-Applied"
_INLINE_BYTES: Final = 64 << 10
_POINTER_BYTES: Final = 200
FRAGMENT_SAFE: Final = "/*~!$&'()+,;=:@-._"
"""Characters of a JSON pointer that stand for themselves in a URI fragment."""


async def check_response(result: Result, context: CallContext) -> Result:
    """Return a result decoded and validated, as far as the call asks for it.

    Raise what the stream of the result raises. Bodies of more than 8 MiB or in a content coding,
    events and redirects, which the schema does not describe, are passed on as they are.
    """
    rule, preferences = (
        context.plan.response_rule,
        context.request.options.preferences or ResponsePreferences(),
    )
    decode = rule.decode if preferences.decode is None else preferences.decode
    validate = rule.validate if preferences.validate is None else preferences.validate
    if not (decode or validate) or result.events is not None or result.is_content_coded:
        return result
    if is_redirect(result.status):
        return result
    try:
        if not await result.read_up_to(MAX_DECODED):
            return result
    except BaseException:
        await result.aclose()
        raise
    if not result.body:
        return result
    reader = context.plan.response_reader()
    validate = validate and reader.describes(result.status)
    if len(result.body) > _INLINE_BYTES:
        checked = await asyncio.to_thread(_check, result.body, result.media_type, reader, decode, validate)
    else:
        checked = _check(result.body, result.media_type, reader, decode, validate)
    body, violations = checked
    applied = []
    if body is not None:
        result.body, result.media_type = body, "application/json"
        result.headers = [one for one in result.headers if one[0].lower() not in BODY_METADATA_HEADERS]
        applied += [DECODE] if preferences.decode else []
    if violations is not None:
        result.headers.append((VIOLATIONS_HEADER, render_violations(violations)))
        context.has_violations = violations.count > 0
        applied += [VALIDATE] if preferences.validate else []
    if applied:
        result.headers.append((APPLIED_HEADER, ", ".join(applied)))
    return result


def _check(
    body: bytes, media_type: str, reader: ResponseReader, decode: bool, validate: bool
) -> tuple[bytes | None, Violations | None]:
    """Return the body as JSON where it is to be decoded and is not JSON already, and its violations."""
    media = parse_essence(media_type)
    decode = decode and not is_json(media)
    if not (decode or validate):
        return None, None
    try:
        value: Any = reader.value(body, media_type)
        decoded = exact_json.dumps(value) if decode else None
    except (NotDecodable, TypeError):
        # A schema describes the body, and there is no value that it could describe.
        return None, Violations(1, ("",)) if validate else None
    return decoded, reader.find_violations(value) if validate else None


def render_violations(violations: Violations) -> str:
    """Return the violations as a dictionary of RFC 9651: `count=2, at=("#/items/0/price" "#/id")`.

    The pointers are URI fragments (RFC 6901 section 6); `more` says that there may be further ones.
    """
    members = [f"count={violations.count}"]
    pointers = [f"#{quote(one, safe=FRAGMENT_SAFE)}" for one in violations.pointers]
    short = [f'"{one}"' for one in pointers if len(one) <= _POINTER_BYTES]
    if short:
        members.append(f"at=({' '.join(short)})")
    if violations.more:
        members.append("more")
    return ", ".join(members)
