"""The resources of the gateway for OAuth 2.1, and the challenge of a response that asks for a token."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from app.core.errors import Forbidden, GatewayError, Unauthenticated
from app.core.settings import Settings
from app.core.settings.oauth import TOKEN_SCOPES

METADATA_PATH: Final = "/.well-known/oauth-protected-resource"
"""Where RFC 9728 has the metadata of a resource; the path of the resource follows."""

MCP_PATHS: Final = ("/mcp", "/mcp/all", "/mcp/search")
"""The addresses of the registry as an MCP server. Each is also served with a slash at its end."""
_TOOLSET_SEGMENTS: Final = 3


def resource_paths(path: str, settings: Settings) -> tuple[str, ...]:
    """Return the paths below the gateway's URL of the resource that an address belongs to.

    `path` is that of a request, without ROOT_PATH. A token for any of them is one for the resource; the first
    is "" for the gateway itself.
    """
    addresses = _addresses(path)
    if settings.oauth_resources == "gateway" or not addresses:
        return ("", "/", *addresses)
    return addresses


def resource_path(path: str, settings: Settings) -> str:
    """Return the path below the gateway's URL of the resource whose metadata a client at an address reads.

    An address of MCP is a resource under exactly the path that was asked (RFC 9728 section 3.3).
    """
    paths = resource_paths(path, settings)
    asked = _quoted(path)
    return asked if paths[0] and asked in paths else paths[0]


def _addresses(path: str) -> tuple[str, ...]:
    """Return the addresses of the MCP server that a path belongs to, none where it belongs to no server."""
    if path == "/mcp" or path.startswith("/mcp/"):
        return _with_slashes(*MCP_PATHS)
    segments = path.split("/")
    if len(segments) > _TOOLSET_SEGMENTS and segments[1] == "toolsets" and segments[2]:
        return _with_slashes(f"/toolsets/{_quoted(segments[2])}/mcp")
    return ()


def _with_slashes(*paths: str) -> tuple[str, ...]:
    return tuple(path + end for path in paths for end in ("", "/"))


def _quoted(path: str) -> str:
    """Return a path as a header can have it; the names of toolsets are the same."""
    return quote(path, safe="/")


def request_path(scope: Mapping[str, Any]) -> str:
    """Return the path of a request's scope (ASGI) without the prefix that a proxy has added."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path[len(root) :] if root and path.startswith(f"{root}/") else path


def challenge(error: GatewayError, scope: Mapping[str, Any], settings: Settings) -> str | None:
    """Return the value of WWW-Authenticate for the response with an error to the request with this scope
    (ASGI); None where it has none.

    Without OAUTH_ISSUER there is no reference to metadata:
    a client would begin a flow that cannot end (RFC 6750 section 3, RFC 9728 section 5.1).
    """
    metadata = []
    if settings.oauth_issuer is not None:
        url = f"{settings.base_url}{METADATA_PATH}{resource_path(request_path(scope), settings)}"
        metadata = [f'resource_metadata="{url}"']
    if isinstance(error, Unauthenticated):
        if not metadata:
            return "Bearer"
        was_sent = any(name in (b"authorization", b"x-api-key") for name, _ in scope["headers"])
        parts = ['error="invalid_token"'] if was_sent else []
        return "Bearer " + ", ".join(
            [*parts, *metadata, f'scope="{" ".join(settings.read_oauth_scope_map())}"']
        )
    missing = error.extra.get("missing_scopes") if isinstance(error, Forbidden) else None
    if not missing:
        return None
    names = [name for name, scope_of_it in settings.read_oauth_scope_map().items() if scope_of_it in missing]
    parts = ['error="insufficient_scope"', f'scope="{" ".join(names or missing)}"']
    # What a token cannot have is not asked for.
    return "Bearer " + ", ".join(parts + (metadata if set(missing) <= set(TOKEN_SCOPES) else []))
