"""The request that registers the library API in a gateway."""

from typing import Any

from examples.library_api.credentials import LibraryCredentials

NAME = "library"
"""Name of the provider."""

KEY_SLOT, LOGIN_SLOT, OAUTH_SLOT = "memberKey", "staffLogin", "libraryOAuth"
"""Names of the security schemes in the document, and so of the credential slots."""

SCOPES = {
    "reservations:read": "List reservations",
    "reservations:write": "Make and cancel reservations",
    "reports:read": "Read reports about how books are used",
}


def registration(base_url: str, credentials: LibraryCredentials) -> dict[str, Any]:
    """Return the body for `POST /providers`; `base_url` is like `http://127.0.0.1:8001`."""
    base_url = base_url.rstrip("/")
    return {
        "name": NAME,
        "source": {"url": f"{base_url}/openapi.json"},
        "credentials": {
            KEY_SLOT: {"kind": "api_key", "value": credentials.library_key},
            LOGIN_SLOT: {
                "kind": "basic",
                "username": credentials.username,
                "password": credentials.password,
            },
            OAUTH_SLOT: {
                "kind": "oauth2",
                "client_id": credentials.client_id,
                "client_secret": credentials.client_secret,
                "token_url": f"{base_url}/oauth/token",
                "scope": " ".join(SCOPES),
            },
        },
    }
