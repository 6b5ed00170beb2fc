"""Connections by TLS with an own authority, and by a proxy."""

import datetime as dt
import socket
import socketserver
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from gateway_peer import Answer, Peer, peer

from utcp_gateway_client.gateway import AsyncGateway, Gateway, errors

KEY = "ugw_canary_0123456789abcdef"
READY = {"status": "ready", "database": "ok", "redis": "ok"}


@dataclass(frozen=True)
class Authority:
    """A certificate authority of these tests; `file` is its certificate, `server` a context for 127.0.0.1."""

    file: Path
    server: ssl.SSLContext


@pytest.fixture(scope="module")
def authority(tmp_path_factory) -> Authority:
    folder = tmp_path_factory.mktemp("certificates")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "Authority of the tests")])
    now = dt.datetime.now(dt.UTC)

    def certificate(subject: x509.Name, public_key, *, is_authority: bool) -> bytes:
        builder = (
            x509.CertificateBuilder(name, subject, public_key, x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(hours=1))
            .not_valid_after(now + dt.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False
            )
        )
        if not is_authority:
            address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
            builder = builder.add_extension(address, critical=False)
        return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    (folder / "authority.pem").write_bytes(certificate(name, key.public_key(), is_authority=True))
    server_key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    private = server_key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "server.pem").write_bytes(
        private + certificate(subject, server_key.public_key(), is_authority=False)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")
    return Authority(folder / "authority.pem", context)


@pytest.fixture
def secure(authority) -> Iterator[Peer]:
    with peer(authority.server) as running:
        yield running


@dataclass
class Proxy:
    """A proxy of HTTP: tunnels (CONNECT), and requests with a whole URL. `lines` are their first lines."""

    url: str
    lines: list[str] = field(default_factory=list)
    credentials: list[str] = field(default_factory=list)


@pytest.fixture
def proxy(monkeypatch) -> Iterator[Proxy]:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)

    class Handler(socketserver.StreamRequestHandler):
        rbufsize = 0

        def handle(self) -> None:
            head = b"".join(iter(self.rfile.readline, b"\r\n"))
            line, *headers = head.decode().split("\r\n")
            state.lines.append(line)
            state.credentials += [each for each in headers if each.lower().startswith("proxy-authorization:")]
            method, target, _ = line.split()
            host, _, port = target.removeprefix("http://").partition("/")[0].partition(":")
            with socket.create_connection((host, int(port))) as upstream:
                if method == "CONNECT":
                    self.request.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
                else:
                    upstream.sendall(head + b"\r\n")
                copying = threading.Thread(target=copy, args=(upstream, self.request))
                copying.start()
                copy(self.request, upstream)
                copying.join()

    def copy(source: socket.socket, target: socket.socket) -> None:
        try:
            while part := source.recv(65536):
                target.sendall(part)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            return

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        state = Proxy(f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield state
        server.shutdown()
        thread.join()


def test_own_authority_is_trusted_as_a_file_and_as_a_context(secure, authority):
    for verify in (authority.file, str(authority.file), ssl.create_default_context(cafile=authority.file)):
        secure.answers.append(Answer(body=READY))
        with Gateway(secure.url, KEY, verify=verify) as gateway:
            assert gateway.health().status == "ready"


async def test_own_authority_is_trusted_by_the_async_client(secure, authority):
    secure.answers.append(Answer(body=READY))
    async with AsyncGateway(secure.url, KEY, verify=authority.file) as gateway:
        assert (await gateway.health()).status == "ready"


def test_certificate_of_an_unknown_authority_is_rejected(secure):
    with Gateway(secure.url, KEY, retries=0) as gateway, pytest.raises(errors.GatewayUnreachable) as caught:
        gateway.me()
    assert (caught.value.sent, secure.received) == (False, [])


def test_file_without_certificates_is_an_error_of_the_argument(tmp_path):
    for file in (tmp_path / "none.pem", Path(__file__)):
        with pytest.raises(ValueError, match="certificates"):
            Gateway("https://gateway.example", KEY, verify=file)


@pytest.mark.parametrize("source", ["argument", "environment"])
def test_proxy_is_used(secure, authority, proxy, monkeypatch, source):
    if source == "environment":
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
    chosen = proxy.url if source == "argument" else None
    secure.answers.append(Answer(body=READY))
    with Gateway(secure.url, KEY, verify=authority.file, proxy=chosen) as gateway:
        gateway.health()
    assert proxy.lines == [f"CONNECT {secure.url.removeprefix('https://')} HTTP/1.1"]
    # What is sent through the tunnel, and so the key, is for the gateway only.
    assert secure.received[0].headers["authorization"] == f"Bearer {KEY}"


def test_proxy_of_the_environment_is_not_used_without_trust_env(secure, authority, proxy, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", proxy.url)
    secure.answers.append(Answer(body=READY))
    with Gateway(secure.url, KEY, verify=authority.file, trust_env=False) as gateway:
        gateway.health()
    assert (proxy.lines, len(secure.received)) == ([], 1)


async def test_proxy_with_a_password_gets_it_and_nothing_else_does(secure, authority, proxy):
    url = proxy.url.replace("http://", "http://user:pw@")
    secure.answers.append(Answer(body=READY))
    async with AsyncGateway(secure.url, KEY, verify=authority.file, proxy=url) as gateway:
        await gateway.health()
        assert "pw" not in repr(gateway)
    assert len(proxy.credentials) == 1
    assert "proxy-authorization" not in secure.received[0].headers


def test_proxy_that_is_not_there_is_unreachable(authority, secure, proxy):
    with (
        Gateway(secure.url, KEY, verify=authority.file, proxy="http://127.0.0.1:1", retries=0) as gateway,
        pytest.raises(errors.GatewayUnreachable) as caught,
    ):
        gateway.me()
    assert (caught.value.sent, secure.received) == (False, [])


def test_proxy_of_plain_http(proxy):
    with peer() as server, Gateway(server.url, KEY, proxy=proxy.url) as gateway:
        server.answers.append(Answer(body=READY))
        gateway.health()
        assert proxy.lines == [f"GET {server.url}/health/ready HTTP/1.1"]
