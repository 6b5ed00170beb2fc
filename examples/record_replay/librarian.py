"""A small agent and its test: which book about a topic can be borrowed now?

    python librarian.py

UTCP_GATEWAY_URL and UTCP_GATEWAY_KEY say which gateway, and with which key. The test does not decide
whether the key calls the API, records it, or replays a recording.
"""

import json
import os
import sys
import urllib.request
import uuid
from collections.abc import Callable
from typing import Any

GATEWAY = os.environ.get("UTCP_GATEWAY_URL", "http://127.0.0.1:8000")
KEY = os.environ["UTCP_GATEWAY_KEY"]
RUN = uuid.uuid4().hex
"""Each run of the test is a run of its own: it gets the recorded responses from the first one on."""
sources: set[str] = set()


def call(tool: str, **arguments: Any) -> Any:
    """Call a tool, and return its result."""
    request = urllib.request.Request(
        f"{GATEWAY}/tools/{tool}/call",
        data=json.dumps(arguments).encode(),
        headers={
            "Authorization": f"Bearer {KEY}",
            "Content-Type": "application/json",
            "X-Recording-Run": RUN,
        },
    )
    with urllib.request.urlopen(request, timeout=30) as response:
        sources.add(response.headers.get("X-Call-Source", "upstream"))
        return json.load(response)


def available_book(topic: str, call: Callable[..., Any] = call) -> str | None:
    """Return the title of the first book about a topic of which there is a copy, None without one.

    In an agent of yours, a model decides which tools are called.
    """
    for book in call("library.searchBooks", q=topic)["items"]:
        stock = call("library.getStock", book_id=book["id"])
        if stock["copies"] > stock["lent"]:
            return str(book["title"])
    return None


def check(passed: bool, expectation: str) -> None:
    """End the test with an error unless it has passed."""
    if not passed:
        sys.exit(f"Failed: {expectation}")


def main() -> None:
    """Run the test."""
    found = available_book("sea")
    check(found is not None and "sea" in found.lower(), f"a book about the sea: {found}")
    check(available_book("nothing like it") is None, "no book about nothing")
    print(f"Passed: {found}. The responses came from: {', '.join(sorted(sources))}.")


if __name__ == "__main__":
    main()
