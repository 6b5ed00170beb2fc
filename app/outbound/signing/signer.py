"""The interface of signers: what they are given of a request, and what they add to it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

Headers = list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class SignableRequest:
    """A request as it will be sent, without the headers of the connection; all other credentials are in it.

    `url` is absolute and percent-encoded. `body` is None where there is none.
    """

    method: str
    url: str
    headers: Sequence[tuple[str, str]]
    body: bytes | None

    @property
    def host(self) -> str:
        """The value of the header Host: without the port that the scheme implies."""
        scheme, _, rest = self.url.partition("://")
        host = rest.partition("/")[0].partition("?")[0]
        name, colon, port = host.rpartition(":")
        implied = {"http": "80", "ws": "80", "https": "443", "wss": "443"}
        return (name if colon and port == implied.get(scheme.lower()) else host).lower()

    @property
    def target(self) -> str:
        """The path and query, without a fragment."""
        rest = self.url.partition("://")[2].partition("#")[0]
        start = min((at for at in (rest.find("/"), rest.find("?")) if at >= 0), default=len(rest))
        target = rest[start:]
        return target if target.startswith("/") else "/" + target


@dataclass(frozen=True, slots=True)
class Signed:
    """What a signer makes of a request: the URL to send, the headers to set, and the signature in them.

    `signature` is masked in the response; "" where nothing was signed.
    """

    url: str
    headers: Headers
    signature: str


class RequestSigner(Protocol):
    """Signs requests with one credential."""

    @property
    def header_names(self) -> tuple[str, ...]:
        """The headers that it sets, for a dry run."""

    @property
    def needs_challenge(self) -> bool:
        """Whether the upstream's first response must be read before a request can be signed."""

    def sign(self, request: SignableRequest) -> Signed:
        """Return the headers for this very request."""

    def accept_challenge(self, challenges: Sequence[str], sent: Mapping[str, str]) -> bool:
        """Return whether the request should be signed and sent once more, after a response 401.

        `challenges` are the values of WWW-Authenticate, `sent` the headers that `sign` returned.
        """
