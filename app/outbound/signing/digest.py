"""HTTP Digest authentication (RFC 7616): MD5, SHA-256 and SHA-512/256, their `-sess` variants, `qop=auth`.

A nonce is used for further requests, with a rising count, until the server rejects it. Servers of RFC 2069,
which name no `qop`, are answered as RFC 2617 says.
"""

import hashlib
import re
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote
from uuid import UUID

from app.outbound.signing.signer import SignableRequest, Signed
from app.security.secret import Secret

_HASHES: Final = {"MD5": "md5", "SHA-256": "sha256", "SHA-512-256": "sha512_256"}
_SCHEME: Final = re.compile(r"(?:^|,)\s*([A-Za-z][A-Za-z0-9._~+/-]*)(?= +[^\s=,])")
# Possessive, and from the beginning of a name or quoted string alone, so that they take linear time.
_QUOTED: Final = re.compile(r'"((?:[^"\\]++|\\.)*+)("?)')
_PARAMETER: Final = re.compile(
    r'(?<![A-Za-z0-9*_-])([A-Za-z0-9*_-]++)\s*+=\s*+(?:"((?:[^"\\]++|\\.)*+)"|([^\s",]++))'
)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_ESCAPED: Final = re.compile(r"\\(.)")
_MAX_CHALLENGES: Final = 4096
_MAX_CHALLENGE_LENGTH: Final = 4096


@dataclass(slots=True)
class DigestChallenge:
    """The challenge of a server, and how many requests were answered with its nonce."""

    realm: str
    nonce: str
    algorithm: str
    opaque: str | None
    has_qop: bool
    userhash: bool
    is_stale: bool
    count: int = 0


@dataclass(slots=True)
class DigestState:
    """The last challenge that a server sent for one credential; None before the first."""

    challenge: DigestChallenge | None = None


class DigestStates:
    """The challenges of servers by credential, version and origin; the longest unused ones are dropped."""

    def __init__(self) -> None:
        self._states: OrderedDict[tuple[UUID, int, str], DigestState] = OrderedDict()

    def of(self, credential: UUID, version: int, origin: str) -> DigestState:
        """Return the state, which is shared by all calls with this credential to this origin."""
        key = (credential, version, origin)
        state = self._states.setdefault(key, DigestState())
        self._states.move_to_end(key)
        while len(self._states) > _MAX_CHALLENGES:
            self._states.popitem(last=False)
        return state


@dataclass(frozen=True, slots=True)
class DigestSigner:
    """Answers challenges with one user name and password."""

    username: str
    password: Secret
    state: DigestState = field(default_factory=DigestState, repr=False)

    needs_challenge = True
    header_names = ("Authorization",)

    def sign(self, request: SignableRequest) -> Signed:
        """Return the header for this request; none before the server's first challenge."""
        challenge = self.state.challenge
        if challenge is None:
            return Signed(request.url, [], "")
        challenge.count += 1
        count, cnonce = f"{challenge.count:08x}", secrets.token_hex(16)
        digest = _digester(challenge.algorithm)
        secret = digest(f"{self.username}:{challenge.realm}:{self.password.reveal()}")
        if challenge.algorithm.endswith("-sess"):
            secret = digest(f"{secret}:{challenge.nonce}:{cnonce}")
        asked = digest(f"{request.method.upper()}:{request.target}")
        middle = f"{challenge.nonce}:{count}:{cnonce}:auth" if challenge.has_qop else challenge.nonce
        response = digest(f"{secret}:{middle}:{asked}")
        parts = [
            self._username(challenge),
            f"realm={_quoted(challenge.realm)}",
            f"nonce={_quoted(challenge.nonce)}",
            f"uri={_quoted(request.target)}",
            f"algorithm={challenge.algorithm}",
            f'response="{response}"',
        ]
        if challenge.has_qop:
            parts += ["qop=auth", f"nc={count}"]
        if challenge.has_qop or challenge.algorithm.endswith("-sess"):
            parts.append(f'cnonce="{cnonce}"')
        if challenge.opaque is not None:
            parts.append(f"opaque={_quoted(challenge.opaque)}")
        if challenge.userhash:
            parts.append("userhash=true")
        return Signed(request.url, [("Authorization", "Digest " + ", ".join(parts))], response)

    def _username(self, challenge: DigestChallenge) -> str:
        """Return the parameter of the user name (RFC 7616 sections 3.4 and 3.4.4)."""
        if challenge.userhash:
            digest = _digester(challenge.algorithm)
            return f'username="{digest(f"{self.username}:{challenge.realm}")}"'
        if self.username.isascii():
            return f"username={_quoted(self.username)}"
        return f"username*=UTF-8''{quote(self.username, safe='')}"

    def accept_challenge(self, challenges: Sequence[str], sent: Mapping[str, str]) -> bool:
        """Remember the server's challenge; return whether a further request may succeed with it.

        It may not where a nonce was used for the first time, and the server does not call it stale: then the
        user name or the password is wrong.
        """
        used, found = self.state.challenge, read_challenge(challenges)
        self.state.challenge = found
        if found is None or "Authorization" not in sent or found.is_stale:
            return found is not None
        if used is not None and used.count > 1:
            # The server may have forgotten a nonce without calling it stale.
            return True
        self.state.challenge = None
        return False


def read_challenge(values: Sequence[str]) -> DigestChallenge | None:
    """Return the first Digest challenge in WWW-Authenticate that can be answered, None where there is none.

    RFC 7616 section 3.7: a server lists its algorithms in the order of its preference.
    """
    for value in values:
        if len(value) > _MAX_CHALLENGE_LENGTH:
            continue
        for scheme, text in _schemes(value):
            if scheme.lower() == "digest" and (challenge := _read(text)) is not None:
                return challenge
    return None


def _schemes(value: str) -> list[tuple[str, str]]:
    """Return the challenges of one header value: their schemes, and the text of their parameters."""
    # Quoted strings may hold commas and words, which must not be taken for a scheme.
    hidden = _QUOTED.sub(lambda found: f'"{"x" * len(found[1])}{found[2]}', value)
    starts = list(_SCHEME.finditer(hidden))
    ends = [one.start() for one in starts[1:]] + [len(value)]
    return [(one[1], value[one.end() : end]) for one, end in zip(starts, ends, strict=False)]


def _read(text: str) -> DigestChallenge | None:
    parameters = {
        name.lower(): _ESCAPED.sub(r"\1", quoted) if quoted else plain
        for name, quoted, plain in _PARAMETER.findall(text)
    }
    algorithm = parameters.get("algorithm", "MD5")
    name, dash, suffix = algorithm.upper().partition("-SESS")
    qop = [one.strip().lower() for one in parameters.get("qop", "").split(",") if one.strip()]
    nonce, realm = parameters.get("nonce"), parameters.get("realm", "")
    unusable = suffix or name not in _HASHES or nonce is None or (qop and "auth" not in qop)
    if unusable or nonce is None or any(map(_CONTROL.search, parameters.values())):
        return None
    return DigestChallenge(
        realm=realm,
        nonce=nonce,
        algorithm=name + ("-sess" if dash else ""),
        opaque=parameters.get("opaque"),
        has_qop=bool(qop),
        userhash=parameters.get("userhash", "").lower() == "true",
        is_stale=parameters.get("stale", "").lower() == "true",
    )


def _digester(algorithm: str) -> Callable[[str], str]:
    name = _HASHES[algorithm.removesuffix("-sess")]

    def digest(text: str) -> str:
        raw = text.encode("utf-8", "surrogateescape")
        return hashlib.new(name, raw, usedforsecurity=False).hexdigest()

    return digest


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
