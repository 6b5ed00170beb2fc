"""`/docs` and `/openapi.json`, from files of the installed `fastapi-offline`: no CDN at run time."""

from pathlib import Path

import fastapi_offline
from fastapi import FastAPI, Request
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from app.access.authorise import PUBLIC, authorise

_ASSETS = Path(fastapi_offline.__file__).parent / "static"


def install(app: FastAPI, *, is_open: bool) -> None:
    """Add the pages to the application; unless `is_open`, they need a key with `tools:read`."""

    async def admit(request: Request) -> None:
        if not is_open:
            await authorise(request, "tools:read")

    async def openapi(request: Request) -> Response:
        await admit(request)
        return JSONResponse(app.openapi())

    async def docs(request: Request) -> Response:
        await admit(request)
        root = request.scope.get("root_path", "").rstrip("/")
        page = get_swagger_ui_html(
            openapi_url=f"{root}/openapi.json",
            title="utcp-gateway",
            swagger_js_url=f"{root}/docs/assets/swagger-ui-bundle.js",
            swagger_css_url=f"{root}/docs/assets/swagger-ui.css",
            swagger_favicon_url=f"{root}/docs/assets/favicon.png",
            swagger_ui_parameters={"persistAuthorization": True, "tryItOutEnabled": True},
        )
        return HTMLResponse(page.body, headers={"X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer"})

    async def home(request: Request) -> Response:
        return RedirectResponse(f"{request.scope.get('root_path', '').rstrip('/')}/docs")

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
