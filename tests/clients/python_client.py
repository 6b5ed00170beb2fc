"""The client of openapi-python-client, which the test generates as the package `gateway_client`.

Arguments: the gateway's URL, an API key, and a registration as JSON. Prints what it found as JSON.
"""

import json
import sys
from typing import Any, TypeVar

from gateway_client import AuthenticatedClient
from gateway_client.api.providers import preview_provider, register_provider
from gateway_client.api.tools import call_tool, list_tools, search_tools
from gateway_client.models import (
    CallArguments,
    Preview,
    Problem,
    RegisteredProvider,
    RegistrationInput,
    UrlRegistrationInput,
    UrlSource,
)

T = TypeVar("T")


def required(found: T | Problem | None) -> T:
    """Return what was found; raise ValueError with the problem that the gateway responded with."""
    if found is None or isinstance(found, Problem):
        raise ValueError(found)
    return found


def main(url: str, key: str, registration: dict[str, Any]) -> None:
    client = AuthenticatedClient(base_url=url, token=key, headers={"Accept": "application/json"})
    source = UrlSource(url=registration["source"]["url"])
    short = UrlRegistrationInput(name=registration["name"], url=source.url)
    preview = required(preview_provider.sync(client=client, body=short))
    if not isinstance(preview, Preview):
        raise TypeError(preview)
    body = RegistrationInput(name=registration["name"], source=source)
    provider = required(register_provider.sync(client=client, body=body))
    if not isinstance(provider, RegisteredProvider):
        raise TypeError(provider)
    hits = required(search_tools.sync(client=client, q="search books", provider=provider.name))

    name = f"{provider.name}.searchBooks"
    called = required(
        call_tool.sync(name, client=client, body=CallArguments.from_dict({"q": "sea", "limit": 3}))
    )
    problem = call_tool.sync(name, client=client, body=CallArguments.from_dict({"limit": "many"}))
    if not isinstance(problem, Problem):
        raise TypeError(problem)

    paged: list[str] = []
    cursor = None
    while True:
        more: dict[str, str] = {} if cursor is None else {"cursor": cursor}
        page = required(list_tools.sync(client=client, provider=provider.name, limit=3, **more))
        paged += [tool.name for tool in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break

    found = {
        "previewed": preview.name,
        "registered": provider.name,
        "found": [tool.name for tool in hits.items],
        "called": called,
        "rejected": {
            "status": problem.status,
            "detail": problem.detail,
            "pointers": [error.pointer for error in problem.errors or ()],
        },
        "paged": paged,
    }
    print(json.dumps(found))


main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
