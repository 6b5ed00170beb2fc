"""Secrets that are planted to be searched for in everything that comes out, in each spelling that could leak."""

import base64
import json
import secrets
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote


def canary(name: str) -> str:
    """Return a random text that is found nowhere by chance; its odd characters need encoding."""
    return f"canary-{name}-{secrets.token_hex(12)}/+&="


def spellings(value: str) -> dict[str, bytes]:
    """Return the forms in which a secret could leak, by name."""
    raw = value.encode()
    return {
        "raw": raw,
        "hex": raw.hex().encode(),
        # Inside a longer text base64 has three alignments; the ends depend on the neighbours.
        **{f"base64 at {k}": base64.b64encode(b"x" * k + raw)[4 if k else 0 : -4] for k in range(3)},
        "base64url": base64.urlsafe_b64encode(raw)[:-4],
        "url": quote(value, safe="").encode(),
        "json": json.dumps(value)[1:-1].encode(),
    }


class LeakSearch:
    """Searches for planted secrets, given by name."""

    def __init__(self, planted: Mapping[str, str]) -> None:
        self._needles: list[tuple[str, str, bytes]] = []
        for name, value in planted.items():
            self.add(name, value)

    def add(self, name: str, value: str) -> None:
        """Search for a further secret from now on."""
        self._needles += [(name, spelling, needle) for spelling, needle in spellings(value).items()]

    def leaks_in(self, where: str, text: bytes) -> list[str]:
        """Return a sentence for each spelling of a secret that `text` contains; `where` names the text."""
        return [
            f"{name} ({spelling}) in {where}" for name, spelling, needle in self._needles if needle in text
        ]

    def leaks_in_response(self, where: str, headers: Mapping[str, Any], body: bytes) -> list[str]:
        """Return the same for the header fields and the body of a response."""
        return [
            *self.leaks_in(where, body),
            *self.leaks_in(f"{where} headers", repr(sorted(headers.items())).encode()),
        ]
