"""The catalogue of problem types: for each slug what happened, and what to do.

Status, title, hint and `retryable` are those of the error's class. `/problems` and `docs/errors.md` show it.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

from app.core.errors import PROBLEM_TYPE, GatewayError, UpstreamErrorResponse, UpstreamRejected
from app.protocols import record
from app.security import vault
from app.server.problems.catalogue_texts import TEXTS

Retryable = Literal["yes", "no", "depends"]

# They define errors of their own.
_DEFINING_MODULES: Final = (record, vault)
_EXAMPLES: Final = Path(__file__).parents[1] / "openapi_examples.json"


@dataclass(frozen=True, slots=True)
class ProblemType:
    """What is known about the problems of one slug.

    `status` is an HTTP status, or `4xx or 502`. `remedies` are sentences on what to do. `retryable` is
    "depends" where each problem says for itself. `members` are the members of the problem besides those that
    all have, with their meaning; `example` is a whole problem.
    """

    slug: str
    status: str
    title: str
    explanation: str
    hint: str
    retryable: Retryable
    remedies: tuple[str, ...] = ()
    members: Mapping[str, str] = field(default_factory=dict)
    example: Mapping[str, Any] = field(default_factory=dict)

    @property
    def type(self) -> str:
        """The URI of the type, which `type` of its problems has."""
        return PROBLEM_TYPE + self.slug

    def as_json(self) -> dict[str, Any]:
        """Return the problem type as JSON."""
        return {
            "type": self.type,
            "slug": self.slug,
            "status": self.status,
            "title": self.title,
            "explanation": self.explanation,
            "hint": self.hint,
            "remedies": list(self.remedies),
            "retryable": self.retryable,
            "members": dict(self.members),
            "example": dict(self.example),
        }


def list_error_classes() -> dict[str, type[GatewayError]]:
    """Return the first class of each slug in the error tree, with those of installed protocols."""
    classes: dict[str, type[GatewayError]] = {}
    for kind in _walk(GatewayError):
        classes.setdefault(kind.slug, kind)
    return classes


def describe_problem_types() -> list[ProblemType]:
    """Return all problem types, sorted by status and slug."""
    types = [_build_problem_type(kind) for kind in list_error_classes().values()]
    return sorted(types, key=lambda problem_type: (problem_type.status, problem_type.slug))


def _walk(kind: type[GatewayError]) -> Iterator[type[GatewayError]]:
    yield kind
    for inner in kind.__subclasses__():
        yield from _walk(inner)


def _build_problem_type(kind: type[GatewayError]) -> ProblemType:
    text = TEXTS.get(kind.slug)
    retryable: Retryable = "yes" if kind.retryable else "no"
    return ProblemType(
        kind.slug,
        "4xx or 502" if kind is UpstreamRejected else str(kind.status),
        kind.title,
        # An error of an installed protocol is not in the catalogue.
        f"{kind.title}." if text is None else text.explanation,
        kind.hint,
        "depends" if text is not None and text.depends else retryable,
        () if text is None else text.remedies,
        {} if text is None else text.members,
        example(kind),
    )


def example(kind: type[GatewayError]) -> dict[str, Any]:
    """Return an example of the problems of a class: a recorded one, with the members of the class added."""
    recorded = _load_recorded().get(kind.slug, {})
    if issubclass(kind, UpstreamRejected):
        error: GatewayError = kind(response=UpstreamErrorResponse(422, {"error": "q is empty"}))
    else:
        error = kind()
    extra = {} if kind.slug in _load_recorded() else error.extra
    return {**error.as_problem(without_extra=True), **extra, **recorded}


@cache
def _load_recorded() -> dict[str, dict[str, Any]]:
    problems: dict[str, dict[str, Any]] = json.loads(_EXAMPLES.read_bytes())["problems"]
    return problems
