"""`/console`: the web console, pages for people, rendered here.

It is an edge like the others: each page is a client of the HTTP API in the same process (`api_client`), as
the key of the session. It has no rule of its own: what a page offers is read from the routes of the API
(`operations`), and what the API rejects, the page says.

    static_files, templating     style sheet, modules, icons; templates and languages
    page, navigation, notices    one request of somebody who is signed in
    page_router, confirmation    the routes of pages, and which of them ask for the key again
    pages/                       the pages, one module a resource
    schema_form, values, charts  forms from JSON Schema, JSON as HTML, charts as SVG

A page is whole without script; modules (`static/js`) load fragments, follow streams and serve keyboard
shortcuts.
"""

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.access.authorise import PUBLIC
from app.console.static_files import PREFIX, StaticFiles

__all__ = ["install"]


def install(app: FastAPI) -> None:
    """Add the pages and static files."""
    # A gateway without a console needs neither its pages nor their templates.
    from app.console.pages import PAGES  # noqa: PLC0415

    app.router.routes.append(
        Route(PREFIX + "/{digest}/{name}", _static_file, methods=["GET"], include_in_schema=False)
    )
    for router in PAGES:
        app.router.routes.extend(router.routes)


async def _static_file(request: Request) -> Response:
    return StaticFiles.shared().response(request, request.path_params["digest"], request.path_params["name"])


_static_file.scope = PUBLIC  # type: ignore[attr-defined]
