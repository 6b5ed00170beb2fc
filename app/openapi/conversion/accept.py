"""The Accept header of a call: what the success responses of an operation are declared as, JSON first.

OAS Responses Object, Swagger 2.0 `produces`, RFC 9110 section 12.5.1.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from app.core.media_types import may_be_json, parse_essence
from app.openapi.conversion import media
from app.openapi.model import Json
from app.openapi.reading.document import OpenApiDocument
from app.openapi.reading.refs import RefProblem

_SUCCESS: Final = re.compile(r"2(?:[0-9][0-9]|[xX][xX])")
_MAX_RESPONSES: Final = 100
_MAX_TYPES: Final = 8
_MAX_LENGTH: Final = 200
_ANYTHING: Final = "*/*"
# A charset is the server's choice, and `q` would be read as a weight.
_NOT_SENT: Final = re.compile(r"\s*(?:charset|boundary|q)\s*=", re.IGNORECASE)


def read_accept(document: OpenApiDocument, operation: Json, pointer: str) -> str | None:
    """Return the value of Accept for an operation; None where it declares no media type of a success.

    The last range is `*/*;q=0.1`: a server that only has another type still sends it.
    """
    if document.version == "2.0":
        produces = operation.get("produces", document.raw.get("produces"))
        return accept_of(produces if isinstance(produces, list) else [])
    responses = operation.get("responses")
    if not isinstance(responses, dict):
        return None
    key = ("accept", id(responses))
    if key not in document.memo:
        document.memo[key] = (
            responses,
            accept_of(_list_media_types(document, responses, f"{pointer}/responses")),
        )
    value: str | None = document.memo[key][1]
    return value


def accept_of(declared: Iterable[Any]) -> str | None:
    """Return the value of Accept for media types in the order of the document; None where there is none."""
    types = dict.fromkeys(filter(None, map(_build_range, declared)))
    ordered = sorted(types, key=_rank)[:_MAX_TYPES]
    if not ordered or ordered[0] == _ANYTHING:
        return None
    weighted = [one if not n else f"{one};q={(10 - n) / 10:g}" for n, one in enumerate(ordered)]
    if _ANYTHING not in types:
        weighted.append(f"{_ANYTHING};q=0.1")
    return ", ".join(weighted)


def _list_media_types(document: OpenApiDocument, responses: Json, pointer: str) -> Iterator[Any]:
    statuses = [status for status in responses if isinstance(status, str) and _SUCCESS.fullmatch(status)]
    for status in statuses[:_MAX_RESPONSES]:
        try:
            response = document.references.follow(responses[status], location=f"{pointer}/{status}").node
        except RefProblem:
            continue
        content = response.get("content") if isinstance(response, dict) else None
        yield from content if isinstance(content, dict) else ()


def _build_range(declared: Any) -> str | None:
    """Return a media type as a range of Accept; None where it is not legal there."""
    if not media.legal(declared) or "$" in declared:
        # `$` begins a variable in the call templates of UTCP clients.
        return None
    written, *parameters = declared.split(";")
    kept = [one.strip() for one in parameters if one.strip() and not _NOT_SENT.match(one)]
    text = ";".join([written.strip().lower(), *kept])
    is_plain = "," not in text and '"' not in text and len(text) <= _MAX_LENGTH
    return text if is_plain and all("=" in one for one in kept) else None


def _rank(given: str) -> int:
    """Return the place of a type: JSON, its relatives, everything else, and ranges last."""
    if "*" in given:
        return 4 if given == _ANYTHING else 3
    kind = parse_essence(given)
    return 0 if kind == "application/json" else 1 if may_be_json(kind) else 2
