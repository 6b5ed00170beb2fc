"""The egress settings of a provider: outbound proxy, CA bundle of its own, client certificate."""

import hashlib
import os
import re
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from app.core.errors import InvalidInput
from app.security.secret import Secret

_PROXY = re.compile(r"https?://(?:[!-.0-?A-~]*@)?[A-Za-z0-9.\[\]:_-]+/?")


@dataclass(frozen=True, slots=True)
class EgressSettings:
    """The egress settings of one provider; requests with equal settings share connections.

    `proxy_url` is an http(s) URL, with userinfo where the proxy requires it; the proxy's address must itself
    pass the address guard. `ca_bundle` is PEM text and replaces the system's CAs; the certificate of an https
    proxy is verified against both. `client_certificate` (PEM chain) and `client_key` (PEM, not encrypted) go
    together. `key` is a digest of all settings.

    Through a proxy, the guard cannot see the address that is connected to. So the target's name is resolved
    and checked here first, too; the proxy must itself check what it resolves later. Where only the proxy can
    resolve public names, `proxy_resolves` leaves names to it and checks IP literals only: a choice for an
    operator whose proxy denies internal destinations.

    `unix_socket` is the path of a socket of this machine, to which requests to the host `localhost` go; the
    guard must allow it. Requests to other hosts, such as those of a token endpoint, are not affected.

    `http_version` is "1.1" or "2", None for HTTP/1.1 unless the upstream accepts HTTP/2 only.
    """

    proxy_url: Secret | None = None
    ca_bundle: str | None = None
    client_certificate: str | None = None
    client_key: Secret | None = None
    proxy_resolves: bool = False
    unix_socket: str | None = None
    http_version: str | None = None
    key: bytes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        parts: tuple[str | None, ...] = (
            self.proxy_url.reveal() if self.proxy_url else None,
            self.ca_bundle,
            self.client_certificate,
            self.client_key.reveal() if self.client_key else None,
            str(self.proxy_resolves),
        )
        if self.unix_socket is not None:
            parts += (self.unix_socket,)
        if self.http_version is not None:
            parts += ("http", self.http_version)
        digest = hashlib.sha256()
        for part in parts:
            raw = b"none" if part is None else b"text" + part.encode()
            digest.update(len(raw).to_bytes(8, "big") + raw)
        object.__setattr__(self, "key", digest.digest())

    def socket_path(self, host: str) -> str | None:
        """Return the path of the socket to which requests to a host go, None where they go by TCP."""
        return self.unix_socket if host.lower().rstrip(".") == "localhost" else None

    def proxy_password(self) -> str:
        """Return the password in the proxy's URL, "" where there is none."""
        if self.proxy_url is None:
            return ""
        userinfo, at, _ = self.proxy_url.reveal().partition("://")[2].rpartition("@")
        return unquote(userinfo.partition(":")[2]) if at else ""


def build_egress_settings(options: Mapping[str, Any], secrets: Mapping[str, str]) -> EgressSettings | None:
    """Return the egress settings in a provider's options and secrets; None where it is reached directly."""
    named = (options.get(name) for name in ("ca_bundle", "client_certificate", "unix_socket", "http_version"))
    if not (secrets.get("proxy_url") or any(named)):
        return None
    return EgressSettings(
        proxy_url=Secret(secrets["proxy_url"]) if secrets.get("proxy_url") else None,
        ca_bundle=options.get("ca_bundle"),
        client_certificate=options.get("client_certificate"),
        client_key=Secret(secrets["client_key"]) if secrets.get("client_key") else None,
        proxy_resolves=bool(options.get("proxy_resolves")),
        unix_socket=options.get("unix_socket"),
        http_version=options.get("http_version"),
    )


def without_client_certificate(egress: EgressSettings) -> EgressSettings:
    """Return the settings for an origin that must not see the client certificate."""
    return replace(egress, client_certificate=None, client_key=None)


def tls_context(egress: EgressSettings | None = None, *, temporary: Path | None = None) -> ssl.SSLContext:
    """Return a verifying client context, TLS 1.2 or later. Raises InvalidInput for an unusable setting.

    A client certificate and its key are, for a moment, in a file in `temporary` (the system's folder for
    temporary files, where it is None).
    """
    if egress and egress.proxy_url and not _PROXY.fullmatch(egress.proxy_url.reveal()):
        raise InvalidInput("The outbound proxy is not a URL like http://user:password@host:3128.")
    if egress and egress.ca_bundle is not None and not egress.ca_bundle.strip():
        # Python would treat an empty bundle as none, and trust the system's CAs.
        raise InvalidInput("The CA bundle is empty.")
    try:
        context = ssl.create_default_context(cadata=egress.ca_bundle if egress else None)
    except (ssl.SSLError, ValueError, TypeError):
        # Python raises TypeError for text that is not ASCII; PEM is ASCII.
        raise InvalidInput("The CA bundle is not a list of PEM certificates.") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if egress and egress.client_certificate:
        _load_client_certificate(context, egress, temporary)
    return context


def proxy_context(egress: EgressSettings) -> ssl.SSLContext:
    """Return the client context for an https proxy. Raises InvalidInput for an unusable setting.

    It trusts both the CA bundle and the system's CAs, since the proxy may be the company's own or not. It has
    no client certificate, which only the upstream may see.
    """
    context = tls_context(replace(egress, client_certificate=None, client_key=None))
    context.load_default_certs()
    return context


def _load_client_certificate(context: ssl.SSLContext, egress: EgressSettings, temporary: Path | None) -> None:
    """Load the certificate from a private temporary file, since OpenSSL's loader takes files only."""
    key = egress.client_key.reveal() if egress.client_key else ""
    descriptor, name = tempfile.mkstemp(dir=temporary)
    path = Path(name)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{egress.client_certificate}\n{key}\n")
        # With a password given, an encrypted key fails instead of prompting at the terminal.
        context.load_cert_chain(path, password="")
    except (ssl.SSLError, OSError, ValueError):
        raise InvalidInput("The client certificate and its key cannot be used together.") from None
    finally:
        path.unlink(missing_ok=True)
