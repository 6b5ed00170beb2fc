"""Stored secrets become headers, query parameters and cookies: for the right origin, in the right order."""

import base64
from dataclasses import replace
from uuid import UUID, uuid4

import pytest

from app.core.errors import CredentialMissing, CredentialNotAllowed, UnsetVariable
from app.outbound.attach import attach
from app.outbound.credentials import CredentialResolver, WireCredential, compile_security
from app.outbound.egress import EgressSettings
from app.outbound.http import Engine
from app.outbound.oauth2 import TokenEndpoint
from app.outbound.tokens import TokenCache
from app.security.masking import Masker
from app.security.requirements import slot_names
from app.security.sealed_credentials import SealedCredential, SealedVariable, seal_credential, seal_variable
from app.security.secret import Secret
from app.security.vault import SealBroken, Vault
from tests.harness.cases import for_each

ORIGIN = "https://api.example"
TENANT, PROVIDER = uuid4(), uuid4()


@pytest.fixture
def masker() -> Masker:
    return Masker()


@pytest.fixture
def resolver(vault: Vault, engine: Engine, masker: Masker) -> CredentialResolver:
    return CredentialResolver(vault, TokenCache(vault, TokenEndpoint(engine)), masker)


@pytest.fixture
def store(vault: Vault):
    """`store(slot, kind, fields, public)` gives a sealed credential."""

    def make(slot: str, kind, fields: dict, public: dict | None = None, **changes) -> SealedCredential:
        plain = SealedCredential(
            id=uuid4(),
            tenant_id=TENANT,
            provider_id=PROVIDER,
            slot=slot,
            version=1,
            kind=kind,
            public=public or {},
            allowed_origins=(ORIGIN,),
            sealed=b"",
        )
        return seal_credential(replace(plain, **changes), vault=vault, fields=fields)

    return make


@pytest.fixture
def variable(vault: Vault):
    def make(
        name: str, value: str, *, secret: bool = True, provider_id: UUID | None = None
    ) -> SealedVariable:
        empty = SealedVariable(
            id=uuid4(),
            tenant_id=TENANT,
            name=name,
            secret=secret,
            value=None,
            sealed=None,
            version=1,
            provider_id=provider_id,
        )
        return seal_variable(empty, vault=vault, value=value)

    return make


def by_slot(*credentials: SealedCredential) -> dict[str, SealedCredential]:
    return {credential.slot: credential for credential in credentials}


def needs(*alternatives: list[str]):
    return compile_security([[{"slot": slot, "scopes": []} for slot in slots] for slots in alternatives])


def shown(wired: tuple[WireCredential, ...]) -> list[tuple[str, str, str]]:
    return [(wire.location, wire.name, wire.value.reveal()) for wire in wired]


class TestKinds:
    @pytest.mark.parametrize("location", ["header", "query", "cookie"])
    async def test_api_key(self, resolver, store, location: str) -> None:
        key = store("k", "api_key", {"value": "s3cr3t"}, {"location": location, "name": "X-Key"})
        wired = await resolver.resolve(needs(["k"]), by_slot(key), origin=ORIGIN)
        assert shown(wired) == [(location, "X-Key", "s3cr3t")]
        assert wired[0].slot == "k"

    async def test_basic_is_in_utf8(self, resolver, store) -> None:
        basic = store("b", "basic", {"username": "jürgen", "password": "pa:ss ö"})
        wired = await resolver.resolve(needs(["b"]), by_slot(basic), origin=ORIGIN)
        coded = base64.b64encode("jürgen:pa:ss ö".encode()).decode()
        assert shown(wired) == [("header", "Authorization", f"Basic {coded}")]

    async def test_bearer(self, resolver, store) -> None:
        bearer = store("b", "bearer", {"token": "abc"})
        wired = await resolver.resolve(needs(["b"]), by_slot(bearer), origin=ORIGIN)
        assert shown(wired) == [("header", "Authorization", "Bearer abc")]

    async def test_oauth2_with_a_handle_to_invalidate(self, resolver, store, provider) -> None:
        public = {"token_url": provider.url, "scope": "", "audience": "aud", "resource": None}
        fields = {"client_id": provider.client[0], "client_secret": provider.client[1]}
        stored = by_slot(store("o", "oauth2", fields, public))
        wanted = compile_security([[{"slot": "o", "scopes": ["a", "b"]}]])
        wired = await resolver.resolve(wanted, stored, origin=ORIGIN)
        assert shown(wired) == [("header", "Authorization", "Bearer token-number-1")]
        assert (provider.requests[0]["scope"], provider.requests[0]["audience"]) == ("a b", "aud")
        assert wired[0].token is not None
        await resolver.invalidate(wired[0].token)
        again = await resolver.resolve(wanted, stored, origin=ORIGIN)
        assert shown(again) == [("header", "Authorization", "Bearer token-number-2")]

    async def test_scope_of_the_credential_overrides_that_of_the_operation(
        self, resolver, store, provider
    ) -> None:
        fields = {"client_id": provider.client[0], "client_secret": provider.client[1]}
        stored = store("o", "oauth2", fields, {"token_url": provider.url, "scope": "own"})
        await resolver.resolve(
            compile_security([[{"slot": "o", "scopes": ["a"]}]]), by_slot(stored), origin=ORIGIN
        )
        assert provider.requests[0]["scope"] == "own"

    async def test_static_credentials_come_first_whatever_the_tool_requires(self, resolver, store) -> None:
        fields = {
            "headers": {"X-Team": "seven", "Authorization": "old"},
            "query": {"v": ["1", "2"]},
            "basic": ["u", "p"],
        }
        stored = by_slot(store("k", "bearer", {"token": "new"}), store("template", "static", fields))
        wired = await resolver.resolve(needs(["k"]), stored, origin=ORIGIN)
        assert [place[:2] for place in shown(wired)] == [
            ("header", "X-Team"),
            ("header", "Authorization"),
            ("query", "v"),
            ("query", "v"),
            ("header", "Authorization"),
            ("header", "Authorization"),
        ]
        url, headers = attach("https://api.example/x", [], wired)
        assert dict(headers)["Authorization"] == "Bearer new"
        assert url == "https://api.example/x?v=1&v=2"


class TestChoice:
    @for_each(
        ("wanted", "stored", "sent"),
        [
            ([["a"]], "a", "a"),
            ([["a"], ["b"]], "ab", "a"),
            ([["a"], ["b"]], "b", "b"),
            ([["a", "b"], ["c"]], "ac", "c"),
            ([["a", "b"], ["c"]], "abc", "ab"),
            ([], "a", ""),
            ([[]], "a", ""),
            ([[], ["a"]], "a", "a"),
            ([["a"], []], "a", "a"),
            ([[], ["a"]], "", ""),
            ([[], ["a", "b"]], "a", ""),
        ],
    )
    async def test_first_stored_alternative_is_used(
        self, resolver, store, wanted, stored: str, sent: str
    ) -> None:
        held = by_slot(*(store(slot, "api_key", {"value": "v" * 8}, {"name": slot}) for slot in stored))
        wired = await resolver.resolve(needs(*wanted), held, origin=ORIGIN)
        assert "".join(wire.slot for wire in wired) == sent
        assert "".join(wire.slot for wire in resolver.preview(needs(*wanted), held, origin=ORIGIN)) == sent

    @for_each(
        ("wanted", "stored", "origin", "certificate", "sent"),
        [
            ([["tls"]], "", ORIGIN, True, ""),
            ([["tls"]], "", ORIGIN, False, None),
            ([["tls"]], "", "http://api.example", True, None),
            ([["tls", "a"]], "a", ORIGIN, True, "a"),
            ([["tls", "a"]], "a", ORIGIN, False, None),
            ([["tls", "a"]], "", ORIGIN, True, None),
            ([["tls"], ["a"]], "a", ORIGIN, False, "a"),
            ([["a"], ["tls"]], "", ORIGIN, True, ""),
        ],
    )
    async def test_a_client_certificate_meets_a_requirement(
        self, resolver, store, wanted, stored: str, origin: str, certificate: bool, sent: str | None
    ) -> None:
        security = [[{"slot": slot, "certificate": slot == "tls"} for slot in slots] for slots in wanted]
        held = by_slot(*(store(slot, "api_key", {"value": "v" * 8}, {"name": slot}) for slot in stored))
        egress = EgressSettings(client_certificate="PEM" if certificate else None, client_key=Secret("k"))
        required = compile_security(security)
        assert slot_names(required) == {slot for slots in wanted for slot in slots} - {"tls"}
        if sent is None:
            with pytest.raises(CredentialMissing) as missing:
                await resolver.resolve(required, held, origin=origin, egress=egress)
            assert "tls" not in missing.value.extra["slots"]
            assert ("no client certificate" in str(missing.value.errors)) is (
                not certificate or origin != ORIGIN
            )
            return
        wired = await resolver.resolve(required, held, origin=origin, egress=egress)
        assert "".join(wire.slot for wire in wired) == sent
        assert [wire.slot for wire in resolver.preview(required, held, origin=origin, egress=egress)] == list(
            sent
        )

    async def test_a_token_is_sent_after_the_name_of_its_scheme(self, resolver, store) -> None:
        for public, expected in (({}, "Bearer t0ken"), ({"scheme": "DPoP"}, "DPoP t0ken")):
            held = by_slot(store("a", "bearer", {"token": "t0ken"}, public))
            [wire] = await resolver.resolve(needs(["a"]), held, origin=ORIGIN)
            assert (wire.name, wire.value.reveal()) == ("Authorization", expected)

    async def test_error_without_stored_credentials_names_the_slots(self, resolver) -> None:
        with pytest.raises(CredentialMissing) as missing:
            await resolver.resolve(needs(["a", "b"], ["c"]), {}, origin=ORIGIN)
        assert missing.value.extra == {"slots": ["a", "b", "c"]}
        assert "'a' and 'b', or in 'c'" in missing.value.detail

    async def test_a_slot_is_named_once_although_several_alternatives_need_it(self, resolver) -> None:
        with pytest.raises(CredentialMissing) as missing:
            await resolver.resolve(needs(["a"], ["a"], ["c"]), {}, origin=ORIGIN)
        assert "in slot 'a', or in 'c', and" in missing.value.detail


class TestOrigin:
    @pytest.mark.parametrize(
        "origin",
        [
            "https://evil.example",
            "http://api.example",
            "https://api.example:8443",
            "https://api.example.evil",
        ],
    )
    async def test_credential_is_not_sent_to_another_origin(self, resolver, store, origin: str) -> None:
        for stored in (
            store("k", "bearer", {"token": "s3cr3t"}),
            store("k", "static", {"headers": {"X": "s3cr3t"}}),
        ):
            with pytest.raises(CredentialNotAllowed) as refused:
                await resolver.resolve(needs(["k"]), by_slot(stored), origin=origin)
            with pytest.raises(CredentialNotAllowed):
                resolver.preview(needs(["k"]), by_slot(stored), origin=origin)
            assert "s3cr3t" not in refused.value.detail

    async def test_another_alternative_may_be_allowed_at_the_origin(self, resolver, store) -> None:
        here = store("b", "bearer", {"token": "b"}, allowed_origins=("https://other.example",))
        there = store("a", "bearer", {"token": "a"})
        wired = await resolver.resolve(
            needs(["a"], ["b"]), by_slot(there, here), origin="https://other.example"
        )
        assert [wire.slot for wire in wired] == ["b"]

    async def test_origin_added_in_the_database_breaks_the_seal(self, resolver, store) -> None:
        stored = replace(
            store("k", "bearer", {"token": "x"}), allowed_origins=(ORIGIN, "https://evil.example")
        )
        with pytest.raises(SealBroken):
            await resolver.resolve(needs(["k"]), by_slot(stored), origin="https://evil.example")

    async def test_token_url_changed_in_the_database_breaks_the_seal(self, resolver, store, provider) -> None:
        fields = {"client_id": "a", "client_secret": "b"}
        stored = store("o", "oauth2", fields, {"token_url": "https://idp.example/token"})
        moved = replace(stored, public={"token_url": provider.url})
        with pytest.raises(SealBroken):
            await resolver.resolve(needs(["o"]), by_slot(moved), origin=ORIGIN)
        assert provider.requests == []


class TestVariables:
    async def test_variables_are_substituted_once_at_the_call(self, resolver, store, variable) -> None:
        variables = (variable("TOKEN", "${HOST} $TOKEN"), variable("HOST", "h", secret=False))
        stored = store(
            "k", "api_key", {"value": "a ${TOKEN}|${HOST}|$HOST|${not closed"}, variables=variables
        )
        wired = await resolver.resolve(needs(["k"]), by_slot(stored), origin=ORIGIN)
        assert wired[0].value == Secret("a ${HOST} $TOKEN|h|$HOST|${not closed")

    async def test_variables_are_substituted_inside_static_values(self, resolver, store, variable) -> None:
        fields = {"headers": {"X": "${T}"}, "query": {"q": ["${T}"]}, "basic": ["u", "${T}"]}
        stored = store("s", "static", fields, variables=(variable("T", "secret-1"),))
        wired = await resolver.resolve((), by_slot(stored), origin=ORIGIN)
        assert [place[2] for place in shown(wired)][:2] == ["secret-1", "secret-1"]

    async def test_unset_variable_is_named_and_nothing_is_sent(self, resolver, store) -> None:
        stored = store("k", "bearer", {"token": "${GONE}"})
        with pytest.raises(UnsetVariable, match="GONE"):
            await resolver.resolve(needs(["k"]), by_slot(stored), origin=ORIGIN)

    async def test_environment_variables_are_not_substituted(self, resolver, store, monkeypatch) -> None:
        monkeypatch.setenv("CANARY", "from-the-environment")
        with pytest.raises(UnsetVariable):
            await resolver.resolve(
                needs(["k"]), by_slot(store("k", "bearer", {"token": "${CANARY}"})), origin=ORIGIN
            )


class TestWhatCannotBeSent:
    @for_each("value", ["a\r\nEvil: 1", "a\n", "\0", "a\x7f"])
    @for_each("location", ["header", "cookie"])
    async def test_value_cannot_end_its_header(self, resolver, store, value: str, location: str) -> None:
        stored = store("k", "api_key", {"value": value}, {"location": location, "name": "k"})
        with pytest.raises(CredentialMissing) as refused:
            await resolver.resolve(needs(["k"]), by_slot(stored), origin=ORIGIN)
        assert value.strip() not in refused.value.detail or len(value.strip()) < 2

    @pytest.mark.parametrize("value", ["a; admin=1", "a,b", "a b", 'a"b'])
    async def test_value_cannot_end_its_cookie(self, resolver, store, value: str) -> None:
        stored = store("k", "api_key", {"value": value}, {"location": "cookie", "name": "k"})
        with pytest.raises(CredentialMissing):
            await resolver.resolve(needs(["k"]), by_slot(stored), origin=ORIGIN)


class TestMasking:
    async def test_every_revealed_value_is_known_to_the_masker(
        self, resolver, store, variable, provider, masker: Masker
    ) -> None:
        fields = {"client_id": provider.client[0], "client_secret": provider.client[1]}
        stored = by_slot(
            store(
                "a",
                "api_key",
                {"value": "canary-key ${V}"},
                {"name": "a"},
                variables=(variable("V", "canary-var"),),
            ),
            store("b", "basic", {"username": "user", "password": "canary-password"}),
            store("c", "bearer", {"token": "canary-token"}),
            store("o", "oauth2", fields, {"token_url": provider.url}),
            store("s", "static", {"headers": {"X-Key": "canary-header", "Accept": "application/json"}}),
        )
        wired = await resolver.resolve(needs(["a", "b", "c", "o"]), stored, origin=ORIGIN)
        for wire in wired:
            if wire.name != "Accept":
                masked = masker.mask(wire.value.reveal())
                assert masked in ("***", "Basic ***", "Bearer ***")
        assert (
            masker.mask("canary-var canary-password token-number-1 s3cr3t-of-the-client") == "*** *** *** ***"
        )
        assert masker.mask("application/json") == "application/json"
        assert "canary" not in repr(wired)

    async def test_a_preview_reveals_and_fetches_nothing(self, resolver, store, provider) -> None:
        fields = {"client_id": "i", "client_secret": "s"}
        stored = by_slot(
            store("o", "oauth2", fields, {"token_url": provider.url}),
            store("s", "static", {"headers": {"X-Key": "canary-header"}}),
        )
        preview = resolver.preview(needs(["o"]), stored, origin=ORIGIN)
        assert shown(preview) == [("header", "X-Key", "***"), ("header", "Authorization", "***")]
        assert provider.requests == []


def wire(location, name: str, value: str) -> WireCredential:
    return WireCredential(location, name, Secret(value), "slot")


class TestAttaching:
    @for_each(
        "url",
        [
            "https://h/p?key=evil",
            "https://h/p?a=1&key=evil&b=2",
            "https://h/p?%6bey=evil",
            "https://h/p?k%65y=evil&key=evil",
            "https://h/p?key",
            "https://h/p?key=evil#fragment",
            "https://h/p",
            "https://h/p?",
        ],
    )
    def test_no_argument_keeps_a_query_parameter_of_that_name(self, url: str) -> None:
        sent, _ = attach(url, [], [wire("query", "key", "a b&c=d/ü")])
        assert sent.endswith("key=a%20b%26c%3Dd%2F%C3%BC")
        assert "evil" not in sent
        assert ("a=1" in sent) is ("a=1" in url)

    def test_no_argument_keeps_a_header_of_that_name(self) -> None:
        given = [("x-KEY", "evil"), ("X-Other", "1"), ("X-Key", "evil")]
        _, headers = attach("https://h/", given, [wire("header", "X-Key", "good")])
        assert headers == [("X-Other", "1"), ("X-Key", "good")]

    def test_no_argument_keeps_a_cookie_of_that_name(self) -> None:
        given = [("cookie", "a=1; session=evil;b=2"), ("X", "1"), ("Cookie", "session=evil")]
        _, headers = attach(
            "https://h/", given, [wire("cookie", "session", "good"), wire("cookie", "c", "3")]
        )
        assert headers == [("X", "1"), ("Cookie", "a=1; b=2; session=good; c=3")]

    def test_masked_request_shows_locations_but_no_values(self) -> None:
        wires = [wire(place, "k", "canary") for place in ("header", "query", "cookie")]
        url, headers = attach("https://h/p", [], wires, masked=True)
        assert (url, headers) == ("https://h/p?k=***", [("k", "***"), ("Cookie", "k=***")])


class TestRemembering:
    async def test_decrypted_credentials_of_a_plan_are_cached(self, resolver, store) -> None:
        stored, wanted = by_slot(store("k", "bearer", {"token": "t0ken-of-the-plan"})), needs(["k"])
        first = await resolver.resolve(wanted, stored, origin=ORIGIN)
        assert await resolver.resolve(wanted, stored, origin=ORIGIN) is first

    async def test_other_origin_requirements_or_credentials_are_resolved_again(self, resolver, store) -> None:
        stored, wanted = by_slot(store("k", "bearer", {"token": "t0ken-one"})), needs(["k"])
        await resolver.resolve(wanted, stored, origin=ORIGIN)
        with pytest.raises(CredentialNotAllowed):
            await resolver.resolve(wanted, stored, origin="https://evil.example")
        with pytest.raises(CredentialMissing):
            await resolver.resolve(needs(["other"]), stored, origin=ORIGIN)
        renewed = by_slot(store("k", "bearer", {"token": "t0ken-two"}))
        assert shown(await resolver.resolve(wanted, renewed, origin=ORIGIN))[0][2] == "Bearer t0ken-two"

    async def test_cached_resolutions_are_bounded(self, vault: Vault, engine: Engine, store) -> None:
        tokens = TokenCache(vault, TokenEndpoint(engine))
        resolver = CredentialResolver(vault, tokens, Masker(), capacity=3)
        plans = [(needs(["k"]), by_slot(store("k", "bearer", {"token": f"t0ken-{n}"}))) for n in range(9)]
        opened = [await resolver.resolve(*plan, origin=ORIGIN) for plan in plans]
        assert len(resolver._cache) == 3
        assert await resolver.resolve(*plans[8], origin=ORIGIN) is opened[8]
        assert await resolver.resolve(*plans[0], origin=ORIGIN) is not opened[0]

    async def test_cached_resolutions_expire(self, vault: Vault, engine: Engine, store) -> None:
        tokens = TokenCache(vault, TokenEndpoint(engine))
        resolver = CredentialResolver(vault, tokens, Masker(), cache_seconds=1e-6)
        stored, wanted = by_slot(store("k", "bearer", {"token": "t0ken-of-the-plan"})), needs(["k"])
        first = await resolver.resolve(wanted, stored, origin=ORIGIN)
        assert await resolver.resolve(wanted, stored, origin=ORIGIN) is not first

    async def test_masker_gets_the_values_at_each_use(self, vault: Vault, engine: Engine, store) -> None:
        masker = Masker(capacity=1)
        resolver = CredentialResolver(vault, TokenCache(vault, TokenEndpoint(engine)), masker)
        stored, wanted = by_slot(store("k", "bearer", {"token": "t0ken-of-the-plan"})), needs(["k"])
        for _ in range(2):
            await resolver.resolve(wanted, stored, origin=ORIGIN)
            assert "t0ken" not in masker.mask("it was t0ken-of-the-plan")
            masker.add("another secret value")

    async def test_rejected_token_is_not_used_again(self, resolver, store, provider) -> None:
        fields = {"client_id": provider.client[0], "client_secret": provider.client[1]}
        stored = by_slot(store("o", "oauth2", fields, {"token_url": provider.url}))
        wanted = needs(["o"])
        first = await resolver.resolve(wanted, stored, origin=ORIGIN)
        assert (await resolver.resolve(wanted, stored, origin=ORIGIN))[0] is first[0]
        await resolver.invalidate(first[0].token)
        second = await resolver.resolve(wanted, stored, origin=ORIGIN)
        assert second[0].value.reveal() != first[0].value.reveal()
