"""The metadata of the gateway's resources for OAuth 2.1 (RFC 9728), where OAUTH_ISSUER is set.

Clients read it before they have a token, also those in web pages of any origin; it says nothing that depends
on who asks, nor whether a toolset exists.
"""

import re
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.access.authorise import PUBLIC
from app.access.challenges import MCP_PATHS, METADATA_PATH, request_path
from app.core import exact_json
from app.core.errors import not_found
from app.core.resource_names import TOOLSET_NAME
from app.services import Services

_SECONDS: Final = 3600
_TOOLSET: Final = re.compile(f"/toolsets/({TOOLSET_NAME.strip('^$')})/mcp/?")
_PATHS: Final = ("", *MCP_PATHS, "/toolsets/{name}/mcp")
_CORS: Final = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "GET",
    "Access-Control-Allow-Headers": "*",
    "Access-Control-Max-Age": str(_SECONDS),
}


async def get_metadata(request: Request) -> Response:
    """Return the metadata of the resource whose path follows the well-known one; 404 without an issuer."""
    services: Services = request.scope["state"]["services"]
    settings = services.settings
    path = request_path(request.scope)[len(METADATA_PATH) :]
    is_known = path.removesuffix("/") in _PATHS[:-1] or _TOOLSET.fullmatch(path) is not None
    if settings.oauth_issuer is None or not is_known:
        raise not_found("There is no protected resource of OAuth 2.1 at this path.")
    if request.method == "OPTIONS":
        return Response(status_code=204, headers=_CORS)
    body = {
        # Clients compare it with the URL that they were given (RFC 9728 section 3.3).
        "resource": settings.base_url + path,
        "authorization_servers": [settings.oauth_issuer],
        "scopes_supported": list(settings.read_oauth_scope_map()),
        "bearer_methods_supported": ["header"],
        "resource_name": "utcp-gateway",
        "resource_documentation": f"{settings.base_url}/docs",
    }
    headers = {**_CORS, "Cache-Control": f"public, max-age={_SECONDS}"}
    return Response(exact_json.dumps(body), headers=headers, media_type="application/json")


get_metadata.scope = PUBLIC  # type: ignore[attr-defined]

ROUTES = tuple(
    Route(METADATA_PATH + path, endpoint=get_metadata, methods=["GET", "OPTIONS"], include_in_schema=False)
    for path in (one + end for one in _PATHS for end in ("", "/"))
)
