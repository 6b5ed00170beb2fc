"""Origins (RFC 6454) of templates with a URL, and of those with a host and a port."""

from collections.abc import Mapping
from typing import Any, Final

from app.formats.utcp.paths import check_host, compile_url

WEBSOCKET_SCHEMES: Final = ("wss", "ws")


def url_origin(fields: Mapping[str, Any]) -> str:
    """Return the origin of an http(s) `url`; raise InvalidInput where none is fixed and legal."""
    return compile_url(str(fields.get("url", ""))).origin


def socket_origin(scheme: str, fields: Mapping[str, Any]) -> str:
    """Return `scheme://host:port`; raise InvalidInput for a host that is not legal."""
    return f"{scheme}://{check_host(str(fields.get('host', '')), at='/host')}:{fields.get('port')}"


def socket_address(scheme: str, fields: Mapping[str, Any]) -> str:
    """Return the same with a host that is not checked, such as a variable."""
    return f"{scheme}://{fields.get('host')}:{fields.get('port')}"
