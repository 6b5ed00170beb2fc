"""Which addresses may be connected to; and that no spelling of a URL gets round it."""

import asyncio
import socket
from ipaddress import IPv4Address
from pathlib import Path

import orjson
import pytest

from app.core.errors import BlockedAddress, GatewayError
from app.outbound.egress import EgressSettings
from app.outbound.guard import AddressDenied, Guard, GuardedResolver, literal_addresses
from app.outbound.http import Engine, OutboundRequest
from app.outbound.limits import Limits
from app.security.secret import Secret
from tests.harness.cases import for_each

CORPUS = Path(__file__).parents[2] / "corpus"
ADDRESSES = orjson.loads((CORPUS / "addresses.json").read_bytes())


class TestAddresses:
    @for_each("address", ADDRESSES["denied"])
    def test_non_public_addresses_are_denied(self, address: str) -> None:
        with pytest.raises(BlockedAddress) as blocked:
            Guard().check(address, 443)
        assert address not in str(blocked.value.detail)

    @for_each("address", ADDRESSES["public"])
    def test_public_addresses_are_allowed(self, address: str) -> None:
        Guard().check(address, 443)

    @for_each("text", ["", "localhost", "example.com", "127.1", "0x7f.1", "2130706433", "127.0.0.1:80"])
    def test_text_that_is_no_address_is_denied(self, text: str) -> None:
        with pytest.raises(BlockedAddress):
            Guard().check(text, 80)

    @pytest.mark.parametrize("port", [0, -1, 65536])
    def test_invalid_ports_are_denied(self, port: int) -> None:
        with pytest.raises(BlockedAddress):
            Guard().check("8.8.8.8", port)


class TestDeniedAddress:
    @for_each("address", ADDRESSES["denied"])
    @for_each("ports", [None, (443,)])
    def test_its_entry_allows_exactly_it(self, address: str, ports: tuple[int, ...] | None) -> None:
        denied = Guard(allow_ports=ports).denied(address, 8080)
        assert denied is not None
        assert denied.setting == "ALLOW_NETWORKS"
        opened = Guard(allow_ports=ports, allow_networks=(denied.entry,))
        assert opened.denied(address, 8080) is None
        assert opened.denied(address, 8081) is not None

    def test_port_of_a_public_address(self) -> None:
        denied = Guard(allow_ports=(443,)).denied("8.8.8.8", 8080)
        assert denied is not None
        assert (denied.setting, denied.entry) == ("ALLOW_PORTS", "8080")
        assert Guard(allow_ports=(443, 8080)).denied("8.8.8.8", 8080) is None

    def test_public_address_is_not_denied(self) -> None:
        assert Guard().denied("8.8.8.8", 443) is None


class TestAllowList:
    @for_each(
        ("entry", "address", "port", "allowed"),
        [
            ("10.0.0.0/8", "10.1.2.3", 443, True),
            ("10.0.0.0/8", "11.1.2.3", 443, True),
            ("10.0.0.0/8", "192.168.0.1", 443, False),
            ("10.0.0.0/8:8080", "10.1.2.3", 8080, True),
            ("10.0.0.0/8:8080", "10.1.2.3", 443, False),
            ("10.0.0.5", "10.0.0.5", 443, True),
            ("10.0.0.5", "10.0.0.6", 443, False),
            ("10.0.0.5:3128", "10.0.0.5", 3128, True),
            ("127.0.0.0/8", "::ffff:127.0.0.1", 80, True),
            ("127.0.0.0/8", "::1", 80, False),
            ("[::1]/128:8001", "::1", 8001, True),
            ("[::1]/128:8001", "::1", 8002, False),
            ("[::1]:8001", "::1", 8001, True),
            ("[fd00::]/8", "fd12::1", 80, True),
            ("fd00::/8", "fd12::1", 80, True),
            ("::1", "::1", 80, True),
            (" 10.0.0.0/8 ", "10.0.0.1", 80, True),
        ],
    )
    def test_allowed_network_entries(self, entry: str, address: str, port: int, allowed: bool) -> None:
        assert Guard(allow_networks=[entry]).allows(address, port) is allowed

    @for_each(
        "entry",
        [
            "",
            "localhost",
            "10.0.0.0/33",
            "10.0.0.1/8",
            "10.0.0.0/8:0",
            "10.0.0.0/8:65536",
            "10.0.0.0/8:x",
            "[::1",
            "*",
        ],
    )
    def test_an_entry_that_cannot_be_read_is_rejected(self, entry: str) -> None:
        with pytest.raises(ValueError, match=r"CIDR|port"):
            Guard(allow_networks=[entry])

    def test_ports_bind_public_and_allowed_networks_but_not_entries_with_a_port(self) -> None:
        guard = Guard(allow_networks=["10.0.0.0/8", "127.0.0.1:9000"], allow_ports=[443])
        allowed = [("8.8.8.8", 443), ("10.0.0.1", 443), ("127.0.0.1", 9000)]
        denied = [("8.8.8.8", 80), ("10.0.0.1", 80), ("127.0.0.1", 443)]
        assert all(guard.allows(*pair) for pair in allowed)
        assert not any(guard.allows(*pair) for pair in denied)


class TestOwnAddress:
    def test_own_address_is_denied_inside_an_allowed_network(self) -> None:
        guard = Guard(allow_networks=["127.0.0.0/8"], own_addresses=["127.0.0.1:8000"])
        assert not guard.allows("127.0.0.1", 8000)
        assert not guard.allows("::ffff:127.0.0.1", 8000)
        assert guard.allows("127.0.0.1", 8001)

    @for_each("wildcard", ["0.0.0.0:8000", "[::]:8000", ":8000", "*:8000", "localhost:8000"])
    def test_a_wildcard_means_every_address_of_this_machine(self, wildcard: str) -> None:
        guard = Guard(allow_networks=["127.0.0.0/8", "::1", "192.0.2.0/24"], own_addresses=[wildcard])
        assert not guard.allows("127.0.0.1", 8000)
        assert not guard.allows("127.9.9.9", 8000)
        assert guard.allows("192.0.2.77", 8000)
        assert guard.allows("127.0.0.1", 8001)

    def test_an_entry_with_the_port_allows_it(self) -> None:
        assert Guard(allow_networks=["127.0.0.1:8000"], own_addresses=["0.0.0.0:8000"]).allows(
            "127.0.0.1", 8000
        )


class TestSocketFactory:
    def test_socket_factory_denies_by_address_and_family(self) -> None:
        for family, sockaddr in (
            (socket.AF_INET, ("127.0.0.1", 80)),
            (socket.AF_INET6, ("::1", 80, 0, 0)),
            (socket.AF_INET6, ("fe80::1%lo", 80, 0, 1)),
            (socket.AF_UNIX, "/run/docker.sock"),
        ):
            with pytest.raises(AddressDenied):
                Guard().socket_factory((family, socket.SOCK_STREAM, 0, "", sockaddr))

    def test_socket_factory_returns_a_socket_for_an_allowed_address(self) -> None:
        info = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("8.8.8.8", 443))
        Guard().socket_factory(info).close()


def name_server(*addresses: str):
    """Answers what it is told, for what no real name server of this machine can answer."""

    def look_up(host: str, port: int, *_: object) -> list[tuple]:
        kinds = ((socket.AF_INET6 if ":" in address else socket.AF_INET, address) for address in addresses)
        return [(kind, socket.SOCK_STREAM, 6, "", (address, port)) for kind, address in kinds]

    return look_up


class TestNames:
    async def test_localhost_is_denied_and_an_unknown_name_is_not_found(self) -> None:
        resolver = GuardedResolver(Guard())
        for name in ("localhost", "LOCALHOST"):
            with pytest.raises(BlockedAddress):
                await resolver.resolve(name, 80)
        for name in ("does-not-exist.invalid", "a" * 70 + ".example", "x..y", ""):
            with pytest.raises(OSError, match=r".*"):
                await resolver.resolve(name, 80)
        resolver.shutdown()

    @for_each("bad", ["127.0.0.1", "10.0.0.1", "::1", "fd00:ec2::254", "64:ff9b::a00:1"])
    async def test_one_denied_record_denies_the_whole_name(self, bad: str) -> None:
        for records in ([bad], ["8.8.8.8", bad], [bad, "8.8.8.8"], ["8.8.8.8"] * 200 + [bad]):
            resolver = GuardedResolver(Guard(), look_up=name_server(*records))
            with pytest.raises(BlockedAddress):
                await resolver.resolve("rebind.example", 443)
            resolver.shutdown()

    async def test_at_most_sixteen_of_a_thousand_records_are_returned(self) -> None:
        resolver = GuardedResolver(
            Guard(), look_up=name_server(*(str(IPv4Address("8.0.0.0") + number) for number in range(1000)))
        )
        assert len(await resolver.resolve("many.example", 443)) == 16
        resolver.shutdown()


@pytest.fixture(scope="module")
async def canary():
    """Listens on every loopback address, IPv4 and IPv6, and counts who comes."""
    seen: list[object] = []

    async def note(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(writer.get_extra_info("peername"))
        writer.close()

    server = await asyncio.start_server(note, "0.0.0.0", 0)
    port = server.sockets[0].getsockname()[1]
    six = await asyncio.start_server(note, "::1", port) if socket.has_ipv6 else None
    yield port, seen
    server.close()
    if six is not None:
        six.close()


def ssrf_urls(port: int) -> list[str]:
    """Every URL of the corpus, aimed at the canary's port."""
    return [
        url.replace("{port}", str(port)) for url in orjson.loads((CORPUS / "ssrf_urls.json").read_bytes())
    ]


class TestUrls:
    def test_there_are_enough_spellings(self) -> None:
        assert len(set(ssrf_urls(1))) >= 140

    async def test_no_spelling_reaches_the_canary(self, canary, strict_engine: Engine) -> None:
        port, seen = canary
        quick = Limits(connect=1, first_byte=2, total=2)
        for url in ssrf_urls(port):
            with pytest.raises(GatewayError) as refused:
                await strict_engine.request(OutboundRequest("GET", url, limits=quick))
            told = refused.value.detail
            assert "127.0" not in told, url
            assert "169.254" not in told, url
        assert seen == []

    async def test_the_canary_can_be_reached_at_all(self, canary, engine: Engine) -> None:
        port, seen = canary
        with pytest.raises(GatewayError):
            await engine.request(OutboundRequest("GET", f"http://127.0.0.1:{port}/"))
        assert seen
        seen.clear()

    @for_each("host", ["127.0.0.1", "localhost", "127.1", "0x7f.1", "[::1]", "[::ffff:7f00:1]"])
    async def test_plain_addresses_are_called_blocked_or_unusable(
        self, host: str, strict_engine: Engine
    ) -> None:
        with pytest.raises(GatewayError) as refused:
            await strict_engine.request(OutboundRequest("GET", f"http://{host}:9/"))
        assert refused.value.status in (403, 422)

    async def test_proxy_does_not_bypass_the_guard(
        self, canary, serve, strict_engine: Engine, engine: Engine
    ) -> None:
        port, seen = canary
        by_canary = EgressSettings(proxy_url=Secret(f"http://127.0.0.1:{port}"))
        with pytest.raises(BlockedAddress):
            await strict_engine.request(OutboundRequest("GET", "http://8.8.8.8/", egress=by_canary))
        for names_too in (False, True):
            egress = EgressSettings(proxy_url=by_canary.proxy_url, proxy_resolves=names_too)
            for host in ("10.0.0.1", "169.254.169.254", "0xa9fea9fe", "2852039166", "[fd00:ec2::254]"):
                with pytest.raises(GatewayError) as refused:
                    await engine.request(OutboundRequest("GET", f"http://{host}/", egress=egress))
                assert refused.value.status in (403, 422)
        assert seen == []

    def test_ip_literals_are_recognised(self) -> None:
        assert literal_addresses("0x7f.1") == ["127.0.0.1"]
        assert literal_addresses("::1") == ["::1"]
        assert literal_addresses("example.com") == []
