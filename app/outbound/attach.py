"""Adding credentials to a request: the last step before sending, so that no argument can override them."""

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import quote, unquote_plus

from app.core.errors import CredentialMissing
from app.outbound.credentials import WireCredential
from app.outbound.signing.signer import Headers, RequestSigner, SignableRequest
from app.security.masking import MASK

__all__ = ["Headers", "Signature", "attach", "sign", "sign_upgrade"]


@dataclass(frozen=True, slots=True)
class Signature:
    """What signing has added to a request: the headers, and the signature, which is masked in responses."""

    headers: Headers
    value: str


def attach(
    url: str,
    headers: Headers,
    credentials: Iterable[WireCredential],
    *,
    masked: bool = False,
    signs: bool = False,
) -> tuple[str, Headers]:
    """Return the URL and headers with the credentials in them; a later credential overrides an earlier one.

    Credentials with the location `field` are ignored here. A header, query parameter or cookie that has the
    name of a credential is removed. With `masked`, each value is `***`.

    Signing credentials need `signs`, which says that `sign` follows; without it, raise CredentialMissing.
    With `masked`, their headers are shown as `***`.
    """
    placed: dict[str, list[tuple[str, str]]] = {"header": [], "query": [], "cookie": [], "field": []}
    for credential in credentials:
        if credential.signer is not None:
            if not signs:
                raise _not_signed(credential)
            placed["header"] += [(name, MASK) for name in credential.signer.header_names if masked]
            continue
        value = MASK if masked else credential.value.reveal()
        placed[credential.location].append((credential.name, value))
    if placed["header"]:
        headers = _with_headers(headers, placed["header"])
    if placed["cookie"]:
        headers = _with_cookies(headers, placed["cookie"])
    if placed["query"]:
        url = _with_query(url, placed["query"], safe="*" if masked else "")
    return url, headers


def sign(
    url: str, headers: Headers, credentials: Iterable[WireCredential], *, method: str, body: bytes | None
) -> tuple[str, Headers, list[tuple[RequestSigner, Signature]]]:
    """Return the URL and headers with the signatures of this very request, and what each signer has added.

    All other credentials must be attached, because they may be signed, too.
    """
    signatures: list[tuple[RequestSigner, Signature]] = []
    for credential in credentials:
        if credential.signer is None:
            continue
        signed = credential.signer.sign(SignableRequest(method, url, headers, body))
        url, headers = signed.url, _with_headers(headers, signed.headers)
        signatures.append((credential.signer, Signature(signed.headers, signed.signature)))
    return url, headers, signatures


def sign_upgrade(url: str, headers: Headers, credentials: Iterable[WireCredential]) -> tuple[str, Headers]:
    """Return the URL and headers of a WebSocket upgrade with its signatures.

    Raise CredentialMissing for a credential that answers a challenge: an upgrade is sent once.
    """
    signing = [one for one in credentials if one.signer is not None]
    for credential in signing:
        if credential.signer is not None and credential.signer.needs_challenge:
            raise _not_signed(credential)
    url, headers, _ = sign(url, headers, signing, method="GET", body=None)
    return url, headers


def _not_signed(credential: WireCredential) -> CredentialMissing:
    return CredentialMissing(
        f"The credential in slot {credential.slot!r} signs whole HTTP requests, which this protocol does not "
        "have: store one of another kind.",
        extra={"slots": [credential.slot]},
    )


def _with_headers(headers: Headers, added: Headers) -> Headers:
    if not headers and len(added) == 1:
        return added
    by_name = {name.lower(): (name, value) for name, value in added}
    return [pair for pair in headers if pair[0].lower() not in by_name] + list(by_name.values())


def _with_cookies(headers: Headers, added: list[tuple[str, str]]) -> Headers:
    cookies = dict(added)
    remaining = [
        pair.strip()
        for name, value in headers
        if name.lower() == "cookie"
        for pair in value.split(";")
        if pair.partition("=")[0].strip() not in cookies
    ]
    rest = [pair for pair in headers if pair[0].lower() != "cookie"]
    return [
        *rest,
        ("Cookie", "; ".join([*remaining, *(f"{name}={value}" for name, value in cookies.items())])),
    ]


def _with_query(url: str, added: list[tuple[str, str]], *, safe: str) -> str:
    """Return the URL with the pairs added; remove pairs of their names, percent-encoded or not."""
    names = {name for name, _ in added}
    head, _, query = url.partition("#")[0].partition("?")
    remaining = [
        pair for pair in query.split("&") if pair and unquote_plus(pair.partition("=")[0]) not in names
    ]
    pairs = [f"{quote(name, safe='')}={quote(value, safe=safe)}" for name, value in added]
    return f"{head}?{'&'.join(remaining + pairs)}"
