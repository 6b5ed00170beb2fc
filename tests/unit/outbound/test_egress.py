"""Explicit proxies, authorities and client certificates, each with connections of its own."""

import asyncio
import os
import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from app.core.errors import InvalidInput, UpstreamUnreachable
from app.outbound.egress import EgressSettings, tls_context
from app.outbound.guard import Guard
from app.outbound.http import Engine, OutboundRequest
from app.outbound.limits import Limits
from app.outbound.transport import EngineTransport
from app.security.secret import Secret
from tests.harness.cases import for_each
from tests.harness.certificates import certificate


@pytest.fixture(scope="module")
def authority():
    return certificate("192.0.2.1")


@pytest.fixture
async def secure(authority, tmp_path: Path):
    """`await secure(name)` starts a TLS server with a certificate for that address.

    It asks for a client certificate where `clients`, and answers what `talk` writes after a request's head.
    """
    servers = []

    async def start(name: str = "127.0.0.1", *, clients: bool = False, talk=None) -> str:
        pem, key, *_ = certificate(name, issuer=authority)
        (tmp_path / "server.pem").write_text(pem + key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "server.pem")
        if clients:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(cadata=authority[0])

        async def serve(reader, writer) -> None:
            try:
                await reader.readuntil(b"\r\n\r\n")
                if talk is not None:
                    await talk(reader, writer)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                await reader.read()
            except (OSError, asyncio.IncompleteReadError):
                pass
            finally:
                writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
        servers.append(server)
        return f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/"

    yield start
    for server in servers:
        server.close()


async def get(engine: Engine, url: str, egress: EgressSettings | None = None) -> bytes:
    response = await engine.request(
        OutboundRequest("GET", url, egress=egress, limits=Limits(connect=2, first_byte=3, total=3))
    )
    return await response.read(100)


class TestTls:
    async def test_an_unknown_authority_is_rejected_and_a_given_one_trusted(
        self, secure, engine: Engine, authority
    ) -> None:
        url = await secure()
        with pytest.raises(UpstreamUnreachable, match="certificate"):
            await get(engine, url)
        assert await get(engine, url, EgressSettings(ca_bundle=authority[0])) == b"ok"
        with pytest.raises(UpstreamUnreachable, match="certificate"):
            await get(engine, url)

    async def test_a_certificate_for_another_name_is_rejected(
        self, secure, engine: Engine, authority
    ) -> None:
        url = await secure("127.0.0.2")
        with pytest.raises(UpstreamUnreachable, match="certificate"):
            await get(engine, url, EgressSettings(ca_bundle=authority[0]))

    async def test_client_certificate_is_presented(self, secure, engine: Engine, authority) -> None:
        url = await secure(clients=True)
        pem, key, *_ = certificate("192.0.2.9", issuer=authority)
        shown = EgressSettings(ca_bundle=authority[0], client_certificate=pem, client_key=Secret(key))
        assert await get(engine, url, shown) == b"ok"
        with pytest.raises(UpstreamUnreachable):
            await get(engine, url, EgressSettings(ca_bundle=authority[0]))

    @for_each("url", ["rubbish", "ftp://h:1", "http://", "http://h:1/path", "http://a@b@c"])
    async def test_an_unusable_proxy_is_rejected(self, engine: Engine, url: str) -> None:
        with pytest.raises(InvalidInput, match="proxy"):
            await get(engine, "https://127.0.0.1:1/", EgressSettings(proxy_url=Secret(url)))

    @pytest.mark.parametrize(
        "bundle", ["", "rubbish", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"]
    )
    async def test_an_unusable_bundle_is_rejected(self, engine: Engine, bundle: str) -> None:
        with pytest.raises(InvalidInput):
            await get(engine, "https://127.0.0.1:1/", EgressSettings(ca_bundle=bundle))

    async def test_an_unusable_key_is_rejected_and_no_file_stays(
        self, engine: Engine, tmp_path: Path
    ) -> None:
        mine, others = certificate("192.0.2.9"), certificate("192.0.2.9")
        key = serialization.BestAvailableEncryption(b"password")
        locked = (
            mine[3].private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, key).decode()
        )
        for secret in (others[1], "rubbish", "", locked):
            egress = EgressSettings(client_certificate=mine[0], client_key=Secret(secret))
            with pytest.raises(InvalidInput):
                await get(engine, "https://127.0.0.1:1/", egress)
            with pytest.raises(InvalidInput):
                tls_context(egress, temporary=tmp_path)
        assert tls_context(
            EgressSettings(client_certificate=mine[0], client_key=Secret(mine[1])), temporary=tmp_path
        )
        assert os.listdir(tmp_path) == []  # noqa: PTH208


def tunnel_to(port: int):
    """What a proxy does after a CONNECT: it passes bytes on, both ways."""

    async def tunnel(reader, writer) -> None:
        there_reader, there = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")

        async def pump(source, sink) -> None:
            while piece := await source.read(65536):
                sink.write(piece)

        await asyncio.wait(
            [asyncio.create_task(pump(reader, there)), asyncio.create_task(pump(there_reader, writer))],
            return_when=asyncio.FIRST_COMPLETED,
        )
        there.close()

    return tunnel


class TestProxy:
    async def test_proxy_is_used_with_its_credentials_and_only_where_it_is_set(
        self, raw, engine: Engine
    ) -> None:
        async def proxy(_reader, writer) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nproxy")

        upstream = await raw(proxy)
        egress = EgressSettings(proxy_url=Secret(f"http://user:pa%40ss@127.0.0.1:{upstream.port}"))
        assert await get(engine, "http://127.0.0.1:81/x?y=%2e%2e", egress) == b"proxy"
        head = upstream.heads[0].decode()
        assert head.startswith("GET http://127.0.0.1:81/x?y=%2e%2e HTTP/1.1\r\n")
        assert "Proxy-Authorization: Basic dXNlcjpwYUBzcw==" in head
        with pytest.raises(UpstreamUnreachable):
            await get(engine, "http://127.0.0.1:81/x")

    async def test_https_goes_through_a_tunnel(self, raw, secure, engine: Engine, authority) -> None:
        url = await secure()
        port = int(url.split(":")[2].rstrip("/"))
        proxy = await raw(tunnel_to(port))
        egress = EgressSettings(proxy_url=Secret(proxy.url), ca_bundle=authority[0])
        assert await get(engine, url, egress) == b"ok"
        assert proxy.heads[0].startswith(f"CONNECT 127.0.0.1:{port} HTTP/1.1".encode())

    async def test_proxy_certificate_is_verified_against_the_ca_bundle_too(
        self, secure, engine: Engine, authority
    ) -> None:
        proxy = await secure()
        trusting = EgressSettings(proxy_url=Secret(proxy), ca_bundle=authority[0])
        assert await get(engine, "http://127.0.0.1:81/", trusting) == b"ok"
        with pytest.raises(UpstreamUnreachable, match="proxy"):
            await get(engine, "http://127.0.0.1:81/", EgressSettings(proxy_url=Secret(proxy)))

    async def test_https_goes_through_a_tunnel_within_tls(self, secure, engine: Engine, authority) -> None:
        url = await secure()
        proxy = await secure(talk=tunnel_to(int(url.split(":")[2].rstrip("/"))))
        egress = EgressSettings(proxy_url=Secret(proxy), ca_bundle=authority[0])
        assert await get(engine, url, egress) == b"ok"

    async def test_a_proxy_never_sees_the_client_certificate(self, secure, engine: Engine, authority) -> None:
        mine = certificate("192.0.2.9", issuer=authority)
        proxy = await secure(clients=True)
        egress = EgressSettings(
            proxy_url=Secret(proxy),
            ca_bundle=authority[0],
            client_certificate=mine[0],
            client_key=Secret(mine[1]),
        )
        with pytest.raises(UpstreamUnreachable):
            await get(engine, "http://127.0.0.1:81/", egress)

    async def test_error_of_a_rejecting_proxy_names_the_proxy(self, raw, engine: Engine) -> None:
        async def refuse(_reader, writer) -> None:
            writer.write(b"HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n")

        proxy = await raw(refuse)
        with pytest.raises(UpstreamUnreachable, match="proxy"):
            await get(engine, "https://127.0.0.1:81/", EgressSettings(proxy_url=Secret(proxy.url)))
        with pytest.raises(UpstreamUnreachable, match="proxy"):
            await get(engine, "http://127.0.0.1:81/", EgressSettings(proxy_url=Secret("http://127.0.0.1:1")))


class TestSessions:
    def test_settings_that_differ_have_different_keys(self) -> None:
        settings = [
            EgressSettings(),
            EgressSettings(proxy_url=Secret("a")),
            EgressSettings(ca_bundle="a"),
            EgressSettings(client_certificate="a"),
            EgressSettings(client_key=Secret("a")),
            EgressSettings(proxy_resolves=True),
            EgressSettings(proxy_url=Secret("a"), ca_bundle="b"),
            EgressSettings(proxy_url=Secret("ab")),
        ]
        assert len({setting.key for setting in settings}) == len(settings)
        assert EgressSettings(ca_bundle="a").key == EgressSettings(ca_bundle="a").key

    async def test_many_settings_are_bounded_and_one_in_use_is_not_closed(self, raw, authority) -> None:
        engine = Engine(Guard(allow_networks=["127.0.0.0/8"]), max_routes=3)
        go = asyncio.Event()

        async def slow(_reader, writer) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no")
            await writer.drain()
            await go.wait()
            writer.write(b"k")

        async def quick(_reader, writer) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

        slowly, quickly = await raw(slow), await raw(quick)
        first = EgressSettings(ca_bundle=authority[0])
        answer = await engine.request(OutboundRequest("GET", slowly.url, egress=first))
        for number in range(6):
            egress = EgressSettings(ca_bundle=authority[0] + "\n" * (number + 1))
            assert await get(engine, quickly.url, egress) == b"ok"
        go.set()
        assert await answer.read(10) == b"ok"
        assert len(engine._routes) <= 3
        await engine.aclose()


async def test_httpx2_clients_share_the_engine_and_closing_one_closes_nothing(serve, engine: Engine) -> None:
    import gzip

    import httpx2
    from aiohttp import web

    async def echo(request: web.Request) -> web.Response:
        body = gzip.compress(f"{request.headers['X-A']} {await request.text()}".encode())
        return web.Response(body=body, headers={"Content-Encoding": "gzip"})

    url = await serve(web.post("/", echo))
    for _ in range(2):
        transport = EngineTransport(engine, limits=Limits())
        async with httpx2.AsyncClient(transport=transport, trust_env=False) as client:
            answer = await client.post(url, headers={"X-A": "1"}, content=b"body")
            assert (answer.status_code, answer.text) == (200, "1 body")
