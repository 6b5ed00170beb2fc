"""`/problems` and `/scopes`: what each problem type and each scope means, as HTML, JSON or Markdown.

The address of one of these pages is in `documentation_url` of every problem.
"""

from collections.abc import Callable
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, FastAPI, Header, Path, Request, Response
from pydantic import BaseModel, Field
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse

from app.api.authorisation import public_route
from app.core.errors import not_found
from app.core.media_types import choose_media_type
from app.core.schemas import problem_responses
from app.core.suggestions import find_similar
from app.security.scopes import SCOPES
from app.server.problems.catalogue import ProblemType, describe_problem_types
from app.server.reference_pages.render import (
    render_problem_html,
    render_problem_markdown,
    render_problems_html,
    render_problems_markdown,
    render_scope_html,
    render_scope_markdown,
    render_scopes_html,
    render_scopes_markdown,
)
from app.server.reference_pages.scopes import ScopeDescription, describe_scopes

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
"""Content Security Policy Level 3: no script at all, styles of this origin only."""
_HEADERS: Final = {"Cache-Control": "public, max-age=300", "Vary": "Accept"}
_HTML_HEADERS: Final = {
    **_HEADERS,
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
}
_JSON: Final = "application/json"
_HTML: Final = "text/html"
_MARKDOWN: Final = "text/markdown"
_INVALID: Final[dict[int | str, dict[str, Any]]] = {422: problem_responses()[422]}
_NOT_FOUND: Final = {404: problem_responses(404)[404]} | _INVALID

router = APIRouter(tags=["reference"], dependencies=[Depends(public_route)])

Accept = Annotated[
    str | None,
    Header(
        max_length=1000,
        description="`text/html`, `text/markdown` or `application/json`, which is the default.",
    ),
]


class ProblemTypeView(BaseModel):
    """What the problems of one type mean."""

    type: str = Field(description="The URI that `type` of these problems has.")
    slug: str
    status: str = Field(description="The HTTP status, or `4xx or 502`.")
    title: str
    explanation: str = Field(description="What happened.")
    hint: str = Field(description="What to do next, in one sentence; a problem may have a more exact one.")
    remedies: list[str] = Field(description="What to do, at length.")
    retryable: Literal["yes", "no", "depends"] = Field(
        description="Whether the same request may succeed later; `depends`: each problem says it."
    )
    members: dict[str, str] = Field(description="Members that only these problems have.")
    example: dict[str, Any]


class ProblemTypeList(BaseModel):
    """All problem types."""

    items: list[ProblemTypeView]


class ScopeView(BaseModel):
    """What one scope allows."""

    name: str
    description: str
    operations: list[str] = Field(
        description="The operations that need the scope: method and path.", examples=[["GET /providers"]]
    )


class ScopeList(BaseModel):
    """All scopes."""

    items: list[ScopeView]


def _describe_media(schema: type[BaseModel], markdown: str) -> dict[int | str, dict[str, Any]]:
    text = {"schema": {"type": "string"}}
    html = {**text, "example": '<!DOCTYPE html>\n<html lang="en">...</html>\n'}
    content = {_HTML: html, _MARKDOWN: {**text, "example": markdown}}
    return {200: {"model": schema, "content": content}}


@router.get(
    "/problems",
    operation_id="listProblemTypes",
    summary="List the problem types",
    response_model=ProblemTypeList,
    responses=_describe_media(ProblemTypeList, "| slug | status | retry | title |\n...") | _INVALID,
)
async def list_problem_types(request: Request, accept: Accept = None) -> Response:
    """Return what each problem type means, by status."""
    types = describe_problem_types()
    return _choose_representation(
        accept,
        html=lambda: render_problems_html(types, _get_root(request)),
        markdown=lambda: render_problems_markdown(types),
        value=lambda: {"items": [one.as_json() for one in types]},
    )


@router.get(
    "/problems/{slug}",
    operation_id="getProblemType",
    summary="Explain a problem type",
    response_model=ProblemTypeView,
    responses=_describe_media(ProblemTypeView, "# not-found\n\n**Not found** (404). ...\n") | _NOT_FOUND,
)
async def get_problem_type(
    request: Request,
    slug: Annotated[
        str,
        Path(max_length=100, description="The last part of `type` of the problem.", examples=["not-found"]),
    ],
    accept: Accept = None,
) -> Response:
    """Return what happened, what to do, whether to retry, and an example."""
    types: dict[str, ProblemType] = {one.slug: one for one in describe_problem_types()}
    problem_type = types.get(slug)
    if problem_type is None:
        raise not_found("There is no problem type of this name.", find_similar(slug, types, limit=3))
    return _choose_representation(
        accept,
        html=lambda: render_problem_html(problem_type, _get_root(request)),
        markdown=lambda: render_problem_markdown(problem_type),
        value=problem_type.as_json,
    )


@router.get(
    "/scopes",
    operation_id="listScopes",
    summary="List the scopes of API keys",
    response_model=ScopeList,
    responses=_describe_media(ScopeList, "| scope | operations | what it allows |\n...") | _INVALID,
)
async def list_scopes(request: Request, accept: Accept = None) -> Response:
    """Return what each scope allows, and which operations need it."""
    scopes = describe_scopes(request.app.openapi())
    return _choose_representation(
        accept,
        html=lambda: render_scopes_html(scopes, _get_root(request)),
        markdown=lambda: render_scopes_markdown(scopes),
        value=lambda: {"items": [one.as_json() for one in scopes]},
    )


@router.get(
    "/scopes/{scope}",
    operation_id="getScope",
    summary="Explain a scope of API keys",
    response_model=ScopeView,
    responses=_describe_media(ScopeView, "# tools:call\n\nCall tools, with ...\n") | _NOT_FOUND,
)
async def get_scope(
    request: Request,
    scope: Annotated[
        str, Path(max_length=100, description="The name of the scope.", examples=["tools:call"])
    ],
    accept: Accept = None,
) -> Response:
    """Return what a scope allows, and which operations need it."""
    scopes: dict[str, ScopeDescription] = {one.name: one for one in describe_scopes(request.app.openapi())}
    description = scopes.get(scope)
    if description is None:
        raise not_found("There is no scope of this name.", find_similar(scope, SCOPES, limit=3))
    return _choose_representation(
        accept,
        html=lambda: render_scope_html(description, _get_root(request)),
        markdown=lambda: render_scope_markdown(description),
        value=description.as_json,
    )


def install(app: FastAPI) -> None:
    """Add the routes, which are public: an error is explained to whoever gets it."""
    app.include_router(router)


def _choose_representation(
    accept: str | None, *, html: Callable[[], str], markdown: Callable[[], str], value: Callable[[], Any]
) -> Response:
    """Return the representation that the client prefers; JSON of `value` where it does not say."""
    match choose_media_type(accept or "*/*", (_JSON, _HTML, _MARKDOWN)):
        case "text/html":
            return HTMLResponse(html(), headers=_HTML_HEADERS)
        case "text/markdown":
            return PlainTextResponse(markdown(), headers=_HEADERS, media_type=_MARKDOWN)
    return JSONResponse(value(), headers=_HEADERS)


def _get_root(request: Request) -> str:
    """Return the path that a proxy has removed (`ROOT_PATH`), without a slash at its end."""
    root: str = request.scope.get("root_path", "")
    return root.rstrip("/")
