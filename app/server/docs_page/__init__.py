"""`/docs` and `/openapi.json`: a reference page, rendered here, that loads nothing from another origin."""

from functools import lru_cache
from pathlib import Path
from typing import Final

from fastapi import FastAPI, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from app.access.authorise import PUBLIC, authorise
from app.server.docs_page.page import render

_ASSETS: Final = Path(__file__).parent / "assets"
CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
"""Content Security Policy Level 3: nothing inline, nothing evaluated, nothing from another origin."""
_HEADERS: Final = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
}


def install(app: FastAPI, *, is_open: bool) -> None:
    """Add the pages to the application; unless `is_open`, they need a key with `tools:read`."""

    async def admit(request: Request) -> None:
        if not is_open:
            await authorise(request, "tools:read")

    @lru_cache(maxsize=1)
    def render_page(root: str) -> str:
        return render(app.openapi(), root)

    async def openapi(request: Request) -> Response:
        await admit(request)
        return JSONResponse(app.openapi())

    async def docs(request: Request) -> Response:
        await admit(request)
        # The first request renders the page, which takes as long as many calls.
        return HTMLResponse(await run_in_threadpool(render_page, _get_root(request)), headers=_HEADERS)

    async def home(request: Request) -> Response:
        return RedirectResponse(f"{_get_root(request)}/docs")

    # Declared public for the test that visits all routes, although a setting may require a key.
    for endpoint in (openapi, docs, home):
        endpoint.scope = PUBLIC  # type: ignore[attr-defined]
    for route in (
        Route("/openapi.json", openapi, include_in_schema=False),
        Route("/docs", docs, include_in_schema=False),
        Route("/", home, include_in_schema=False),
        Mount("/docs/assets", StaticFiles(directory=_ASSETS), name="docs-assets"),
    ):
        app.router.routes.append(route)


def _get_root(request: Request) -> str:
    """Return the path that a proxy has removed (`ROOT_PATH`), without a slash at its end."""
    root: str = request.scope.get("root_path", "")
    return root.rstrip("/")
