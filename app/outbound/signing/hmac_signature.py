"""HMAC request signatures by a recipe (`app/formats/utcp/signature_recipe.py`)."""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Final

from app.formats.utcp.signature_recipe import SignatureRecipe, fill, list_placeholders
from app.outbound.signing.signer import SignableRequest, Signed

_TIMESTAMPS: Final[Mapping[str, Callable[[datetime], str]]] = {
    "unix": lambda now: str(int(now.timestamp())),
    "unix_ms": lambda now: str(int(now.timestamp() * 1000)),
    "iso8601": lambda now: now.strftime("%Y-%m-%dT%H:%M:%SZ"),
    "http_date": lambda now: format_datetime(now, usegmt=True),
}


@dataclass(frozen=True, slots=True)
class HmacSigner:
    """Signs with one key, which is bytes; `key_id` names it to the upstream, "" where it has no name."""

    recipe: SignatureRecipe
    key: bytes = field(repr=False)
    key_id: str = field(default="", repr=False)

    needs_challenge = False

    @property
    def header_names(self) -> tuple[str, ...]:
        """The headers that it sets."""
        return (self.recipe.header, *self.recipe.headers)

    def sign(self, request: SignableRequest) -> Signed:
        """Return the headers for this request, with the present time and a new nonce of 128 bits."""
        recipe = self.recipe
        path, _, query = request.target.partition("?")
        body = request.body or b""
        values = {
            "method": request.method.upper(),
            "url": request.url,
            "host": request.host,
            "path": path,
            "query": query,
            "target": request.target,
            "timestamp": _TIMESTAMPS[recipe.timestamp_format](datetime.now(UTC)),
            "nonce": secrets.token_hex(16),
            "key_id": self.key_id,
            "body_hash": _encoded(hashlib.new(recipe.algorithm, body).digest(), recipe.body_hash_encoding),
        }
        if "body" in list_placeholders(recipe.string_to_sign):
            # Any byte survives this round trip, so that the signature is over the very bytes.
            values["body"] = body.decode("utf-8", "surrogateescape")
        text = fill(recipe.string_to_sign, values).encode("utf-8", "surrogateescape")
        values["signature"] = _encoded(hmac.new(self.key, text, recipe.algorithm).digest(), recipe.encoding)
        templates = {**recipe.headers, recipe.header: recipe.header_value}
        headers = [(name, fill(template, values)) for name, template in templates.items()]
        return Signed(request.url, headers, values["signature"])

    def accept_challenge(self, challenges: Sequence[str], sent: Mapping[str, str]) -> bool:  # noqa: ARG002
        """Return False: a signature does not depend on a response."""
        return False


def _encoded(digest: bytes, encoding: str) -> str:
    return digest.hex() if encoding == "hex" else base64.b64encode(digest).decode()
