"""AWS Signature Version 4: the header Authorization of a request to an AWS service.

Source: "Create a signed AWS API request" (AWS Identity and Access Management user guide). The tests verify
the signatures with botocore.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote, unquote, unquote_plus

from app.outbound.signing.signer import Headers, SignableRequest, Signed
from app.security.secret import Secret

ALGORITHM: Final = "AWS4-HMAC-SHA256"
_SPACES: Final = re.compile(r"\s+")
_EMPTY_BODY: Final = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True, slots=True)
class AwsSigV4Signer:
    """Signs with one access key for one region and service.

    The headers Host, Content-Type and all `X-Amz-*` are signed. The URL is sent in AWS's canonical encoding,
    so that what is sent is what was signed.
    """

    access_key_id: str
    secret_access_key: Secret
    region: str
    service: str
    session_token: Secret | None = None

    needs_challenge = False

    @property
    def header_names(self) -> tuple[str, ...]:
        """The headers that it sets."""
        names = ["Authorization", "X-Amz-Date"]
        if self._is_s3:
            names.append("X-Amz-Content-Sha256")
        return (*names, "X-Amz-Security-Token") if self.session_token is not None else tuple(names)

    def sign(self, request: SignableRequest) -> Signed:
        """Return the headers for this request, signed at the present time."""
        return self.sign_at(request, datetime.now(UTC))

    def sign_at(self, request: SignableRequest, now: datetime) -> Signed:
        """Return the headers for this request, signed at a time in UTC."""
        path, _, query = request.target.partition("?")
        path, query = _canonical_path(path), _canonical_query(query)
        url = f"{request.url[: _origin_length(request.url)]}{path}{'?' + query if query else ''}"
        time = now.strftime("%Y%m%dT%H%M%SZ")
        payload_hash = _EMPTY_BODY if not request.body else hashlib.sha256(request.body).hexdigest()
        added: Headers = [("X-Amz-Date", time)]
        if self._is_s3:
            added.append(("X-Amz-Content-Sha256", payload_hash))
        if self.session_token is not None:
            added.append(("X-Amz-Security-Token", self.session_token.reveal()))
        signed = _signed_headers(request, added)
        canonical = "\n".join(
            [
                request.method.upper(),
                path if self._is_s3 else quote(_normalized(path), safe="/-_.~"),
                query,
                *(f"{name}:{value}" for name, value in signed.items()),
                "",
                ";".join(signed),
                payload_hash,
            ]
        )
        scope = f"{time[:8]}/{self.region}/{self.service}/aws4_request"
        text = "\n".join([ALGORITHM, time, scope, hashlib.sha256(canonical.encode()).hexdigest()])
        signature = hmac.new(self._key(time[:8]), text.encode(), hashlib.sha256).hexdigest()
        value = (
            f"{ALGORITHM} Credential={self.access_key_id}/{scope}, SignedHeaders={';'.join(signed)}, "
            f"Signature={signature}"
        )
        return Signed(url, [*added, ("Authorization", value)], signature)

    def accept_challenge(self, challenges: Sequence[str], sent: Mapping[str, str]) -> bool:  # noqa: ARG002
        """Return False: a signature does not depend on a response."""
        return False

    @property
    def _is_s3(self) -> bool:
        # S3 encodes the path once, where all others encode it twice, and requires the hash as a header.
        return self.service in ("s3", "s3express", "s3-object-lambda", "s3-outposts")

    def _key(self, date: str) -> bytes:
        key = b"AWS4" + self.secret_access_key.reveal().encode()
        for part in (date, self.region, self.service, "aws4_request"):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        return key


def _signed_headers(request: SignableRequest, added: Headers) -> dict[str, str]:
    """Return the headers that are signed, by name in lower case and sorted, values joined and trimmed."""
    replaced = {name.lower() for name, _ in added}
    own = [(name.lower(), value) for name, value in request.headers if name.lower() not in replaced]
    values: dict[str, list[str]] = {"host": [request.host]}
    for name, value in [*own, *((name.lower(), value) for name, value in added)]:
        if name == "content-type" or name.startswith("x-amz-"):
            values.setdefault(name, []).append(_SPACES.sub(" ", value.strip()))
    return {name: ",".join(values[name]) for name in sorted(values)}


def _canonical_path(path: str) -> str:
    """Return the path with each segment percent-encoded once; a slash within a segment stays `%2F`."""
    return "/".join(quote(unquote(segment, errors="surrogateescape"), safe="-_.~",
                          errors="surrogateescape") for segment in path.split("/"))  # fmt: skip


def _normalized(path: str) -> str:
    """Return the path without empty and dot segments (RFC 3986 section 5.2.4), as all but S3 sign it."""
    segments: list[str] = []
    for segment in path.split("/"):
        if segment == "..":
            segments = segments[:-1]
        elif segment not in ("", "."):
            segments.append(segment)
    end = "/" if segments and path.endswith("/") else ""
    return f"/{'/'.join(segments)}{end}"


def _canonical_query(query: str) -> str:
    """Return the query sorted by name and value, each strictly percent-encoded; a plus sign is a space."""
    pairs = [pair.partition("=") for pair in query.split("&") if pair]
    return "&".join(
        f"{name}={value}"
        for name, value in sorted((_encoded(name), _encoded(value)) for name, _, value in pairs)
    )


def _encoded(text: str) -> str:
    return quote(unquote_plus(text, errors="surrogateescape"), safe="-_.~", errors="surrogateescape")


def _origin_length(url: str) -> int:
    """Return where the path or query of an absolute URL begins."""
    start = url.index("://") + 3
    found = [at for at in (url.find(mark, start) for mark in "/?#") if at >= 0]
    return min(found, default=len(url))
