"""The examples of the OpenAPI document: recorded requests and responses, and one problem for each slug.

`openapi_examples.json` is what a running gateway responded to requests about the sample API
(`scripts/openapi_examples.py`, `make examples`). Problems that are not in it are made by their class.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from app.agents.call.operation import OPERATION_ID, TOOLSET_OPERATION_ID
from app.core import errors
from app.formats.json_schema.references import inline_references
from app.server.problems.catalogue import example as problem_example

_FILE: Final = Path(__file__).with_suffix(".json")
_REFERENCE: Final = "#/components/examples/"
_PROBLEM: Final = "application/problem+json"

_ANY_OPERATION: Final = (
    errors.BadRequest, errors.Unauthenticated, errors.Forbidden, errors.NotFound, errors.Conflict,
    errors.PreconditionFailed, errors.TooLarge, errors.UnsupportedMediaType, errors.InvalidInput,
    errors.Unavailable,
)  # fmt: skip
_ANY_UPSTREAM: Final = (
    errors.BlockedAddress, errors.UpstreamError, errors.UpstreamTimeout, errors.UpstreamUnreachable,
    errors.UpstreamUnauthorized, errors.UpstreamMalformed, errors.ResponseTooLarge, errors.TokenRequestFailed,
)  # fmt: skip
_CALLS: Final = (
    errors.ClientTimeout, errors.InvalidArguments, errors.UnsetVariable, errors.CredentialMissing,
    errors.CredentialNotAllowed, errors.RateLimited, errors.IdempotencyMismatch, errors.IdempotencyRunning,
    errors.IdempotencyUnknown, errors.RecordingNotFound, errors.NotRecorded, errors.RecordingOutdated,
    errors.IdempotencyNotStored, errors.Overloaded, errors.CircuitOpen, errors.OriginBusy, errors.Stopping,
    errors.CallLogUnavailable, errors.LoopDetected, errors.DeadlineExceeded,
)  # fmt: skip
_READS_A_SOURCE: Final = frozenset(
    {"registerProvider", "previewProvider", "importProviders", "refreshProvider", "previewRefresh"}
)

_CALL_OPERATIONS: Final = frozenset({OPERATION_ID, TOOLSET_OPERATION_ID})
_APPROVES: Final = frozenset({"approveApproval", "approveProvider"})
_SIGNS_IN: Final = frozenset({"createSession", "createSignInLink"})


def add_examples(document: dict[str, Any]) -> None:
    """Add to an OpenAPI document an example for each parameter, body and response that has one.

    Every slug becomes a named example of the components, which responses refer to.
    """
    recording = json.loads(_FILE.read_bytes())
    problems: dict[str, dict[str, Any]] = {}
    for item in document["paths"].values():
        for operation in item.values():
            recorded = recording["operations"].get(operation.get("operationId"), {})
            _add_to_request(operation, recorded)
            for status, response in operation["responses"].items():
                content = response.get("content", {})
                for media_type, example in recorded.get("responses", {}).get(status, {}).items():
                    _add(content.get(media_type), example)
                if _PROBLEM in content:
                    found = dict(_list_problems(operation["operationId"], status))
                    problems |= found
                    if found:
                        content[_PROBLEM]["examples"] = {slug: {"$ref": _REFERENCE + slug} for slug in found}
                    else:
                        content[_PROBLEM]["example"] = _build_upstream_problem(
                            int(status), recording["problems"]
                        )
    document["components"]["examples"] = {
        slug: {"summary": problem["title"], "value": problem} for slug, problem in sorted(problems.items())
    }


def _add_to_request(operation: dict[str, Any], recorded: dict[str, Any]) -> None:
    for parameter in operation.get("parameters", ()):
        if parameter["name"] in recorded.get("parameters", {}):
            example = recorded["parameters"][parameter["name"]]
            # What was sent once is a list of one.
            is_list = parameter["schema"].get("type") == "array" and not isinstance(example, list)
            parameter["example"] = [example] if is_list else example
    for media_type, example in recorded.get("request", {}).items():
        _add(operation.get("requestBody", {}).get("content", {}).get(media_type), example)


def _add(media: dict[str, Any] | None, example: Any) -> None:
    # A Media Type Object has `example` or `examples`.
    if media is not None and "examples" not in media:
        media["example"] = _without_references(example)


def _without_references(value: Any) -> Any:
    """Return an example without `$ref` in JSON Schemas: readers of OpenAPI resolve it in examples, too."""
    if isinstance(value, list):
        return [_without_references(member) for member in value]
    if not isinstance(value, dict):
        return value
    plain = inline_references(value) if "$defs" in value else value
    return {name: _without_references(member) for name, member in plain.items()}


def _list_problems(operation_id: str, status: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the slugs that an operation can respond with under a status, each with a problem."""
    for kind in _list_kinds(operation_id):
        if status == str(kind.status):
            yield kind.slug, problem_example(kind)
    slug = errors.UpstreamRejected.slug
    if operation_id in _CALL_OPERATIONS and status == "default":
        yield slug, problem_example(errors.UpstreamRejected)


def _build_upstream_problem(status: int, recorded: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the problem of an upstream that rejected a call with this status."""
    rejected = errors.UpstreamRejected
    example = recorded.get(
        rejected.slug, {"type": errors.PROBLEM_TYPE + rejected.slug, "title": rejected.title}
    )
    detail = f"The upstream responded with status {status}."
    members = {"status": status, "detail": detail, "upstream_status": status}
    return {name: value for name, value in example.items() if name != "upstream_body"} | members


def _list_kinds(operation_id: str) -> tuple[type[errors.GatewayError], ...]:
    if operation_id in _CALL_OPERATIONS:
        others = (errors.Conflict, errors.PreconditionFailed)
        kinds = tuple(kind for kind in _ANY_OPERATION if kind not in others)
        return (*kinds, *_CALLS, *_ANY_UPSTREAM)
    if operation_id in _READS_A_SOURCE:
        return (*_ANY_OPERATION, errors.InvalidDocument, *_ANY_UPSTREAM)
    if operation_id in _APPROVES:
        return (*_ANY_OPERATION, errors.OwnApproval, errors.ApprovalOutdated)
    if operation_id in _SIGNS_IN:
        return (*_ANY_OPERATION, errors.HttpsRequired, errors.RateLimited)
    if operation_id == "deleteSession":
        return (*_ANY_OPERATION, errors.CrossSiteRequest, errors.HttpsRequired)
    return _ANY_OPERATION
