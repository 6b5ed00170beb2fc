"""Renders problem types and scopes as Markdown (also for docs/errors.md and docs/access.md) and as HTML."""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from app.core.errors import PROBLEMS_PATH, SCOPES_PATH
from app.server.docs_page.page import render_prose
from app.server.problems.catalogue import ProblemType
from app.server.reference_pages.scopes import ScopeDescription

if TYPE_CHECKING:
    from jinja2 import Template

RETRYABLE: Final = {
    "yes": "Yes, after the seconds in `Retry-After` where there is one.",
    "no": "No: the same request would fail again, or do something twice.",
    "depends": "It depends; `retryable` of each problem says it.",
}


def render_problem_markdown(problem_type: ProblemType, *, heading: str = "#") -> str:
    """Return the section about one problem type."""
    lines = [
        f"{heading} {problem_type.slug}",
        f"**{problem_type.title}** ({problem_type.status}). {problem_type.explanation}",
        f"What to do: {problem_type.hint}",
        "\n".join(f"- {remedy}" for remedy in problem_type.remedies),
        f"Retry: {RETRYABLE[problem_type.retryable]}",
        "\n".join(f"- `{name}`: {meaning}" for name, meaning in problem_type.members.items()),
        "```json\n" + _write_json(problem_type.example) + "\n```",
    ]
    return "\n\n".join(line for line in lines if line) + "\n"


def render_problems_markdown(problem_types: Sequence[ProblemType]) -> str:
    """Return a table of all problem types."""
    rows = [
        f"| [{one.slug}](#{one.slug}) | {one.status} | {one.retryable} | {one.title} |"
        for one in problem_types
    ]
    return "\n".join(["| slug | status | retry | title |", "|---|---|---|---|", *rows]) + "\n"


def render_scope_markdown(scope: ScopeDescription, *, heading: str = "#") -> str:
    """Return the section about one scope."""
    operations = "\n".join(f"- `{operation}`" for operation in scope.operations)
    needed = f"Needed by:\n\n{operations}" if operations else "No operation needs this scope itself."
    return f"{heading} {scope.name}\n\n{scope.description}\n\n{needed}\n"


def render_scopes_markdown(scopes: Sequence[ScopeDescription]) -> str:
    """Return a table of all scopes."""
    rows = [f"| `{one.name}` | {len(one.operations)} | {one.description} |" for one in scopes]
    return "\n".join(["| scope | operations | what it allows |", "|---|---|---|", *rows]) + "\n"


def render_problem_html(problem_type: ProblemType, root: str) -> str:
    """Return the page of one problem type; `root` is the path of the gateway, "" without a prefix."""
    return _render_page(
        "problem", problem_type.title, root, problem=problem_type, example=_write_json(problem_type.example)
    )


def render_problems_html(problem_types: Sequence[ProblemType], root: str) -> str:
    """Return the page that lists all problem types."""
    return _render_page("problems", "Problem types", root, problems=problem_types)


def render_scope_html(scope: ScopeDescription, root: str) -> str:
    """Return the page of one scope."""
    return _render_page("scope", f"Scope {scope.name}", root, scope=scope)


def render_scopes_html(scopes: Sequence[ScopeDescription], root: str) -> str:
    """Return the page that lists all scopes."""
    return _render_page("scopes", "Scopes of API keys", root, scopes=scopes)


def _render_page(kind: str, title: str, root: str, **values: Any) -> str:
    return _load_template().render(
        kind=kind,
        title=title,
        root=root,
        retryable=RETRYABLE,
        problems_path=root + PROBLEMS_PATH,
        scopes_path=root + SCOPES_PATH,
        **values,
    )


@cache
def _load_template() -> "Template":
    # Most workers never render a page.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["prose"] = render_prose
    return environment.get_template("page.html")


def _write_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
