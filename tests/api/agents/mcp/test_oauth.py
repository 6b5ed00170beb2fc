"""Access tokens of a real issuer: a server that publishes its keys, whose tokens are signed here."""

import hmac
import re
import time
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from hashlib import blake2b
from typing import Any

import httpx2
import pytest
from joserfc.jwk import RSAKey
from pydantic import ValidationError
from sqlalchemy import text as text_of_sql

from app.core.settings import Settings
from app.security.keys import KEY_ID_PATTERN, mint
from app.security.vault import KeyRing
from tests.harness.application import Application, run_application
from tests.harness.cases import for_each
from tests.harness.issuer import Issuer, get_first_key, get_second_key, run_issuer
from tests.harness.plain_http import WITHOUT_CERTIFICATES
from tests.harness.upstream import upstream
from tests.stored import store_provider, store_tool

FOREIGN = RSAKey.generate_key(2048, {"kid": "first"})
RING = KeyRing.generate("test")
TABLES = """
SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')
"""
ADDRESSES = [
    path + end for path in ("/mcp", "/mcp/all", "/mcp/search", "/toolsets/support/mcp") for end in ("", "/")
]
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    async with run_issuer() as found:
        yield found


@asynccontextmanager
async def gateway_of(
    issuer: Issuer, database_url: str, redis_url: str, **more: object
) -> AsyncIterator[Application]:
    settings = Settings(
        _env_file=None,
        database_url=database_url,
        redis_url=redis_url,
        sealing_keys=RING,
        allow_networks="127.0.0.0/8",
        public_base_url="http://gateway.example",
        allowed_hosts="*",
        **{"oauth_issuer": issuer.url, "log_level": "error", **more},
    )
    async with run_application(settings) as running:
        yield running


@pytest.fixture
async def application(issuer: Issuer, database_url: str, redis_url: str) -> AsyncIterator[Application]:
    async with gateway_of(issuer, database_url, redis_url) as running:
        yield running


def token(issuer: Issuer, **changes) -> str:
    """Return an access token for /mcp with changed claims; a claim that is None is left out."""
    return issuer.token(**{"aud": "http://gateway.example/mcp", **changes})


def encoded(part: bytes) -> str:
    """Return a part of a JWT."""
    return urlsafe_b64encode(part).rstrip(b"=").decode()


async def request(
    application: Application, text: str | None, method: str = "POST", path: str = "/mcp"
) -> httpx2.Response:
    headers = {} if text is None else {"Authorization": f"Bearer {text}"}
    async with httpx2.AsyncClient(
        base_url=application.url, trust_env=False, verify=WITHOUT_CERTIFICATES
    ) as client:
        if method == "POST":
            return await client.post(path, headers=headers, json=LIST)
        return await client.request(method, path, headers=headers)


async def test_a_token_lists_the_tools_and_the_keys_are_read_once(application, issuer):
    for _ in range(3):
        response = await request(application, token(issuer))
        assert response.status_code == 200, response.text
        assert "tools" in response.json()["result"]
    assert issuer.requests == ["/.well-known/oauth-authorization-server", "/keys"]


@for_each(
    ("changes", "reason"),
    [
        ({"aud": "http://gateway.example"}, "another resource"),
        ({"aud": ["https://other.example/mcp"]}, "another resource"),
        ({"aud": None}, "another resource"),
        ({"iss": "https://other.example"}, "another issuer"),
        ({"iss": None}, "another issuer"),
        ({"exp": 1_000_000}, "expired"),
        ({"exp": None}, "no expiry"),
        ({"exp": True}, "no expiry"),
        ({"nbf": 99_999_999_999}, "not valid yet"),
        ({"sub": None}, "no subject"),
    ],
)
async def test_claims_that_are_not_right_are_rejected(application, issuer, changes, reason):
    response = await request(application, token(issuer, **changes))
    assert response.status_code == 401
    assert reason in response.json()["detail"]
    assert 'error="invalid_token"' in response.headers["www-authenticate"]


async def test_a_symmetric_signature_by_the_public_key_is_rejected(application, issuer):
    _, claims, _ = token(issuer).split(".")
    signed = encoded(b'{"alg":"HS256","kid":"first"}') + f".{claims}"
    signature = hmac.digest(get_first_key().as_pem(private=False), signed.encode(), "sha256")
    response = await request(application, f"{signed}.{encoded(signature)}")
    assert response.status_code == 401
    assert "algorithm is not accepted" in response.json()["detail"]


async def test_a_token_without_a_signature_is_rejected(application, issuer):
    _, claims, _ = token(issuer).split(".")
    unsigned = encoded(b'{"alg":"none","kid":"first"}') + f".{claims}."
    assert (await request(application, unsigned)).status_code == 401


@for_each(
    "make",
    [
        pytest.param(lambda issuer: token(issuer, key=FOREIGN), id="foreign key of that id"),
        pytest.param(lambda issuer: token(issuer, key=get_second_key(), algorithm="ES256"), id="unknown id"),
        pytest.param(lambda issuer: token(issuer)[:-4] + "AAAA", id="changed signature"),
        pytest.param(lambda issuer: token(issuer, header={"typ": "dpop+jwt"}), id="another type"),
        pytest.param(lambda _: "a.b.c", id="no token"),
        pytest.param(lambda _: "..", id="empty parts"),
        pytest.param(lambda _: "e30." + "A" * 8_000 + ".A", id="long"),
    ],
)
async def test_what_no_key_of_the_issuer_has_signed_is_rejected(application, issuer, make):
    text = make(issuer)
    response = await request(application, text)
    assert response.status_code == 401, response.text
    assert text not in response.text


async def test_keys_of_the_issuer_may_change(application, issuer, database_url, redis_url):
    assert (await request(application, token(issuer))).status_code == 200
    issuer.keys = [get_second_key()]
    application.services.access_tokens._keys._tried_at -= 10
    changed = await request(application, token(issuer, key=get_second_key(), algorithm="ES256"))
    assert changed.status_code == 200, changed.text
    # The issuer withdrew the first key: what is signed by it is not accepted any more.
    assert (await request(application, token(issuer, sub="user-8"))).status_code == 401


@pytest.mark.parametrize(
    "other",
    [
        {"kty": "EC", "crv": "brainpoolP256r1", "x": "AA", "y": "AA", "kid": "new"},
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
        {"kty": "OKP", "crv": "Ed25519", "x": 1},
        {"kty": "RSA", "kid": "new"},
        {"kty": "AKP", "alg": "ML-DSA-44", "pub": "AA"},
        "text",
    ],
)
async def test_a_key_that_cannot_be_used_does_not_lock_out_the_others(application, issuer, other):
    issuer.others = [other]
    assert (await request(application, token(issuer))).status_code == 200


async def test_a_key_of_the_token_itself_verifies_nothing(application, issuer):
    mine = FOREIGN.as_dict(private=False)
    for header in (
        {"jwk": mine},
        {"jku": f"{issuer.url}/mine"},
        {"x5u": f"{issuer.url}/mine"},
        {"kid": "../keys"},
    ):
        response = await request(application, token(issuer, key=FOREIGN, header=header))
        assert response.status_code == 401, response.text
    assert not any("mine" in path for path in issuer.requests)


async def test_unknown_ids_of_keys_do_not_become_requests_to_the_issuer(application, issuer):
    assert (await request(application, token(issuer))).status_code == 200
    for number in range(5):
        assert (await request(application, token(issuer, header={"kid": f"x{number}"}))).status_code == 401
    assert issuer.requests.count("/keys") == 1


async def test_while_the_issuer_is_down_only_what_is_known_is_accepted(application, issuer):
    issuer.is_down = True
    response = await request(application, token(issuer))
    assert response.status_code == 503
    assert "issuer" in response.json()["detail"]
    issuer.is_down = False
    application.services.access_tokens._keys._tried_at -= 10
    assert (await request(application, token(issuer))).status_code == 200
    issuer.is_down = True
    assert (await request(application, token(issuer, sub="user-9"))).status_code == 200


async def test_other_routes_have_the_gateway_as_resource_and_administer_nothing(application, issuer):
    text = token(issuer, aud="http://gateway.example", scope="tools:read admin providers:write")
    assert (await request(application, text, "GET", "/tools")).status_code == 200
    assert (await request(application, text)).status_code == 401
    rejected = await request(application, text, "GET", "/providers")
    assert rejected.status_code == 403
    assert rejected.headers["www-authenticate"] == 'Bearer error="insufficient_scope", scope="providers:read"'


async def test_a_missing_scope_says_which_and_where_to_ask(application, issuer):
    text = token(issuer, aud="http://gateway.example", scope="tools:call")
    rejected = await request(application, text, "GET", "/tools")
    assert rejected.status_code == 403
    assert rejected.headers["www-authenticate"] == (
        'Bearer error="insufficient_scope", scope="tools:read", '
        'resource_metadata="http://gateway.example/.well-known/oauth-protected-resource"'
    )


async def test_without_credentials_the_challenge_leads_to_the_issuer(application, issuer):
    response = await request(application, None)
    assert response.status_code == 401
    assert response.headers["www-authenticate"] == (
        'Bearer resource_metadata="http://gateway.example/.well-known/oauth-protected-resource/mcp", '
        'scope="tools:read tools:call"'
    )
    for path in ("", *ADDRESSES):
        metadata = await request(application, None, "GET", f"/.well-known/oauth-protected-resource{path}")
        assert metadata.status_code == 200, path
        assert metadata.headers["access-control-allow-origin"] == "*"
        assert "max-age" in metadata.headers["cache-control"]
        found = metadata.json()
        assert found["resource"] == f"http://gateway.example{path}"
        assert found["authorization_servers"] == [issuer.url]
        assert found["scopes_supported"] == ["tools:read", "tools:call"]
        assert found["bearer_methods_supported"] == ["header"]


@for_each("resources", ["endpoints", "gateway"])
@for_each("path", ADDRESSES)
async def test_the_resource_of_an_address_is_its_url_as_the_client_has_it(
    issuer, database_url, redis_url, resources, path
):
    """RFC 9728 section 3.3: a client does not use the metadata of another URL than its own."""
    async with gateway_of(issuer, database_url, redis_url, oauth_resources=resources) as application:
        challenge = (await request(application, None, path=path)).headers["www-authenticate"]
        leads_to = "" if resources == "gateway" else path
        assert (
            f'resource_metadata="http://gateway.example/.well-known/oauth-protected-resource{leads_to}"'
            in challenge
        )
        metadata = await request(application, None, "GET", f"/.well-known/oauth-protected-resource{path}")
        assert metadata.json()["resource"] == f"http://gateway.example{path}"
        accepted = await request(application, token(issuer, aud=f"http://gateway.example{path}"), path=path)
        # The toolset does not exist, but the token is valid for it.
        assert accepted.status_code == (404 if "toolsets" in path else 200), accepted.text
        other = "/mcp" if "toolsets" in path else "/toolsets/support/mcp"
        rejected = await request(application, token(issuer, aud=f"http://gateway.example{path}"), path=other)
        assert rejected.status_code == 401


async def test_a_token_for_one_address_of_the_registry_is_for_all_of_them(application, issuer):
    for path in ADDRESSES[:6]:
        for other in ADDRESSES[:6]:
            response = await request(
                application, token(issuer, aud=f"http://gateway.example{other}"), path=path
            )
            assert response.status_code == 200, (path, other)


async def test_a_token_of_a_toolset_is_for_that_toolset_alone(application, issuer):
    text = token(issuer, aud="http://gateway.example/toolsets/support/mcp")
    # The toolset does not exist, but the token is valid for it.
    assert (await request(application, text, path="/toolsets/support/mcp")).status_code == 404
    assert (await request(application, text, path="/toolsets/other/mcp")).status_code == 401
    assert (await request(application, text)).status_code == 401


async def test_one_resource_for_the_gateway_and_mapped_scopes_and_claims(issuer, database_url, redis_url):
    more = {
        "oauth_resources": "gateway",
        "oauth_scopes": "use=tools:call look=tools:read",
        "oauth_providers_claim": "apis",
    }
    async with gateway_of(issuer, database_url, redis_url, **more) as application:
        text = token(issuer, aud="http://gateway.example", scope="look", apis=["shop"])
        assert (await request(application, text)).status_code == 200
        principal = application.services.access_tokens
        found = await principal.verify(text, "/mcp")
        assert found.providers == {"shop"}
        assert found.scopes == {"tools:read"}
        # A token without the claim may use no provider.
        found = await principal.verify(token(issuer, aud="http://gateway.example", scope="use"), "/mcp")
        assert found.providers == frozenset()
        challenge = (await request(application, None)).headers["www-authenticate"]
        assert 'scope="use look"' in challenge


async def test_api_keys_go_on_beside_tokens_and_ask_the_issuer_nothing(application, issuer):
    client = await application.client("tools:read")
    assert (await client.get("/tools")).status_code == 200
    assert issuer.requests == []


async def call(application: Application, text: str, tool: str) -> dict[str, Any]:
    """Return the result of a call over MCP with a token."""
    params = {"name": tool, "arguments": {}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {"Authorization": f"Bearer {text}"}
    async with httpx2.AsyncClient(
        base_url=application.url, trust_env=False, verify=WITHOUT_CERTIFICATES
    ) as client:
        response = await client.post("/mcp", json=body, headers=headers)
    assert response.status_code == 200, response.text
    return response.json()["result"]


async def store_tool_of(application: Application, name: str, url: str) -> None:
    """Store a provider with the tool `find`, which GETs `url`."""
    services = application.services
    provider = await store_provider(services.database, name)
    template = {"call_template_type": "http", "http_method": "GET", "url": url}
    await store_tool(services.database, provider, "find", call_template=template)
    await services.feed.catch_up()


async def rows_of_all_tables(application: Application) -> str:
    """Return all that is stored in the database as text."""
    async with application.services.database.read_session() as session:
        names = (await session.execute(text_of_sql(TABLES))).scalars().all()
        assert "calls" in " ".join(names)
        rows = [
            (await session.execute(text_of_sql(f"SELECT t::text FROM {name} t"))).scalars() for name in names
        ]
        return "\n".join(row for found in rows for row in found)


async def test_a_call_is_recorded_with_a_digest_of_the_subject(application, issuer):
    text = token(issuer)
    with upstream() as site:
        await store_tool_of(application, "recorded", f"{site.url}/echo")
        result = await call(application, text, "recorded_find")
        assert result["isError"] is False
        assert text.encode() not in site.wire()
    await application.services.call_log.flush()
    reader = await application.client("calls:read")
    [record] = (await reader.get("/calls", params={"provider": "recorded"})).json()["items"]
    owner = blake2b(f"{issuer.url}\nuser-7".encode(), digest_size=12).hexdigest()
    assert record["key_id"] == f"oauth:{owner}"
    assert (record["tool"], record["interface"], record["outcome"]) == ("recorded.find", "mcp", "ok")
    by_key = (await reader.get("/calls", params={"key_id": record["key_id"]})).json()["items"]
    assert [one["id"] for one in by_key] == [record["id"]]
    stored = await rows_of_all_tables(application)
    assert record["key_id"] in stored
    assert "user-7" not in stored
    for part in (text, *text.split(".")[1:]):
        assert part not in stored


async def test_the_default_rate_limit_of_keys_applies_to_each_subject(issuer, database_url, redis_url):
    with upstream() as site:
        async with gateway_of(issuer, database_url, redis_url, key_rate_limit="1/60") as application:
            await store_tool_of(application, "limited", f"{site.url}/echo")
            first = await call(application, token(issuer, sub="first"), "limited_find")
            assert first["isError"] is False
            # Another token of the same subject has the same limit.
            again = await call(application, token(issuer, sub="first", jti="other"), "limited_find")
            assert again["isError"] is True
            assert 0 < again["_meta"]["utcp-gateway/retryAfterSeconds"] <= 60
            other = await call(application, token(issuer, sub="second"), "limited_find")
            assert other["isError"] is False
        assert len(site.requests) == 2


async def test_without_an_issuer_there_is_no_metadata(database_url, redis_url):
    settings = Settings(
        _env_file=None,
        database_url=database_url,
        redis_url=redis_url,
        sealing_keys=RING,
        log_level="error",
    )
    async with run_application(settings) as application:
        response = await request(application, None)
        assert response.headers["www-authenticate"] == "Bearer"
        for path in ("", *ADDRESSES):
            metadata = await request(application, None, "GET", f"/.well-known/oauth-protected-resource{path}")
            assert metadata.status_code == 404


@pytest.mark.parametrize(
    "name", ["a%22%0D%0AX-Injected:%201", "%E2%82%AC"], ids=["line-end", "beyond-latin-1"]
)
async def test_a_challenge_has_no_text_of_the_path_as_it_is(application, name):
    response = await request(application, None, path=f"/toolsets/{name}/mcp")
    assert response.status_code == 401
    assert "x-injected" not in response.headers
    assert f"/toolsets/{name.replace(':', '%3A')}/mcp" in response.headers["www-authenticate"]


GATEWAY = "http://gateway.example"


@asynccontextmanager
async def client_of(application: Application, text: str) -> AsyncIterator[httpx2.AsyncClient]:
    """A client that sends a token."""
    async with httpx2.AsyncClient(
        base_url=application.url,
        trust_env=False,
        verify=WITHOUT_CERTIFICATES,
        headers={"Authorization": f"Bearer {text}"},
    ) as client:
        yield client


async def store_approved_tool(application: Application, name: str, url: str) -> None:
    """Store a provider with the tool `lend`, which POSTs to `url` and requires approval."""
    services = application.services
    provider = await store_provider(services.database, name)
    template = {"call_template_type": "http", "http_method": "POST", "url": url}
    await store_tool(
        services.database, provider, "lend", call_template=template, override={"requires_approval": True}
    )
    await services.feed.catch_up()


async def test_a_call_by_a_token_waits_is_made_and_read_by_the_same_principal_only(application, issuer):
    approver = await application.client("approvals:decide")
    own = {"aud": GATEWAY, "client_id": "desk"}
    with upstream() as site:
        await store_approved_tool(application, "lending", f"{site.url}/echo")
        waiting = await call(application, token(issuer, client_id="desk"), "lending_lend")
        assert waiting["isError"] is True
        [shown] = (await approver.get("/approvals", params={"provider": "lending"})).json()["items"]
        path = f"/approvals/{shown['id']}"
        assert path in waiting["content"][0]["text"]
        assert shown["requester"] == {"issuer": issuer.url, "subject": "user-7", "client": "desk"}
        assert site.requests == []
        async with client_of(application, token(issuer, **own)) as agent:
            assert (await agent.get(path)).json()["state"] == "pending"
            approved = await approver.post(f"{path}/approve")
            assert approved.json()["state"] == "executed", approved.text
            assert len(site.requests) == 1
            result = await agent.get(f"{path}/result")
            assert (result.status_code, result.json()["upstream_status"]) == (200, 200)
        others = (
            {"sub": "user-8"},
            {"client_id": "other"},
            {"client_id": None},
            {"client_id": None, "azp": "other"},
        )
        for changes in others:
            async with client_of(application, token(issuer, **{**own, **changes})) as other:
                assert (await other.get(path)).status_code == 404
                assert (await other.get(f"{path}/result")).status_code == 404
                assert (await other.get("/approvals")).json()["items"] == []
        assert (await (await application.client("tools:call")).get(f"{path}/result")).status_code == 404
    await application.services.call_log.flush()
    reader = await application.client("calls:read")
    found = (await reader.get("/calls", params={"provider": "lending"})).json()["items"]
    assert sorted(one["outcome"] for one in found) == ["approval-pending", "ok"]
    assert len({one["key_id"] for one in found}) == 1


async def test_an_approved_call_has_the_restrictions_of_the_token(issuer, database_url, redis_url):
    with upstream() as site:
        settings = {"oauth_providers_claim": "apis", "oauth_toolsets_claim": "sets"}
        async with gateway_of(issuer, database_url, redis_url, **settings) as application:
            await store_approved_tool(application, "restricted", f"{site.url}/echo")
            admin = await application.client("admin")
            body = {"definition": {"tools": ["restricted.lend"]}}
            assert (await admin.put("/toolsets/lend", json=body)).status_code == 201
            text = token(issuer, aud=f"{GATEWAY}/toolsets/lend/mcp", sets=["lend"], apis=["restricted"])
            params = {"name": "restricted_lend", "arguments": {}}
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            async with client_of(application, text) as agent:
                for _ in range(2):
                    asked = await agent.post("/toolsets/lend/mcp", json=message)
                    assert "needs the approval" in asked.text
            listed = await admin.get("/approvals", params={"provider": "restricted"})
            second, first = (f"/approvals/{one['id']}" for one in listed.json()["items"])
            assert (await admin.post(f"{first}/approve")).json()["state"] == "executed"
            # The tool is taken out of the toolset: the second call is not made.
            body = {"definition": {"providers": ["lending"]}}
            assert (await admin.put("/toolsets/lend", json=body)).status_code == 200
            outdated = await admin.post(f"{second}/approve")
            assert outdated.status_code == 409
            assert "no longer in the toolset lend" in outdated.json()["detail"]
        assert len(site.requests) == 1


async def test_an_approved_call_is_not_made_once_its_issuer_is_not_accepted(issuer, database_url, redis_url):
    with upstream() as site:
        async with gateway_of(issuer, database_url, redis_url) as application:
            await store_approved_tool(application, "left", f"{site.url}/echo")
            await call(application, token(issuer), "left_lend")
        async with gateway_of(
            issuer, database_url, redis_url, oauth_issuer="https://other.example"
        ) as application:
            admin = await application.client("admin")
            [shown] = (await admin.get("/approvals", params={"provider": "left"})).json()["items"]
            outdated = await admin.post(f"/approvals/{shown['id']}/approve")
            assert outdated.status_code == 409
            assert "not accepted any more" in outdated.json()["detail"]
        assert site.requests == []


async def test_waiting_calls_of_a_token_are_bounded(issuer, database_url, redis_url):
    async with gateway_of(issuer, database_url, redis_url, approval_pending_max=2) as application:
        await store_approved_tool(application, "bounded", "http://127.0.0.1:9/echo")
        for number in range(3):
            text = token(issuer, sub="bounded", jti=str(number))
            result = await call(application, text, "bounded_lend")
            waits = "needs the approval" in result["content"][0]["text"]
            assert waits == (number < 2), result
        other = await call(application, token(issuer, sub="another"), "bounded_lend")
        assert "needs the approval" in other["content"][0]["text"]


async def test_me_says_what_the_token_is(issuer, database_url, redis_url):
    settings = {"oauth_providers_claim": "apis", "key_rate_limit": "5/60"}
    async with gateway_of(issuer, database_url, redis_url, **settings) as application:
        now = int(time.time())
        claims = {"aud": GATEWAY, "apis": ["shop"], "azp": "desk", "iat": now - 60, "exp": now + 60}
        text = token(issuer, scope="tools:read", **claims)
        async with client_of(application, text) as client:
            response = await client.get("/me")
        assert response.status_code == 200, response.text
        me = response.json()
        principal = me["access_token"].pop("principal")
        assert me["access_token"] == {"issuer": issuer.url, "subject": "user-7", "client": "desk"}
        assert principal.startswith("oauth:")
        assert re.fullmatch(KEY_ID_PATTERN, me["id"])
        assert (me["state"], me["rotated_from"], me["warnings"]) == ("active", None, [])
        assert (me["scopes"], me["providers"], me["is_admin"]) == (["tools:read"], ["shop"], False)
        assert [one["name"] for one in me["scope_descriptions"]] == ["tools:read"]
        assert me["rate_limit_usage"]["remaining"] == 5
        times = [datetime.fromisoformat(me[name]).timestamp() for name in ("created_at", "expires_at")]
        assert times == [now - 60, now + 60]
        for part in (text, *text.split(".")[1:]):
            assert part not in response.text
        key = await application.client("tools:read")
        assert (await key.get("/me")).json()["access_token"] is None


async def test_clients_of_one_subject_share_its_rate_limit(issuer, database_url, redis_url):
    with upstream() as site:
        async with gateway_of(issuer, database_url, redis_url, key_rate_limit="1/60") as application:
            await store_tool_of(application, "shared", f"{site.url}/echo")
            errors = [
                (await call(application, token(issuer, sub="both", client_id=name), "shared_find"))["isError"]
                for name in ("one", "two")
            ]
        assert errors == [False, True]


async def test_invalid_tokens_are_limited_per_address_as_invalid_keys_are(issuer, database_url, redis_url):
    async with gateway_of(issuer, database_url, redis_url, key_failure_rate_limit="3/3600") as application:
        invalid = [token(issuer, key=FOREIGN, jti=str(number)) for number in range(2)]
        for text in (*invalid, mint().text.reveal()):
            response = await request(application, text)
            assert response.status_code == 401
            assert "retry-after" not in response.headers
        beyond = await request(application, invalid[1])
        assert beyond.status_code == 401
        assert "too many invalid ones" in beyond.json()["detail"]
        assert int(beyond.headers["retry-after"]) > 0
        unknown = await request(application, mint().text.reveal())
        assert "too many invalid keys" in unknown.json()["detail"]
        # Valid ones of the same address are served, and an expired one is told that it has expired.
        assert (await request(application, token(issuer))).status_code == 200
        expired = await request(application, token(issuer, exp=1_000_000))
        assert "expired" in expired.json()["detail"]


@for_each(
    ("url", "is_accepted"),
    [
        ("https://login.example", True),
        ("https://login.example/tenant", True),
        ("http://127.0.0.1:8080", True),
        ("http://[::1]:8080/realm", True),
        ("http://localhost:8080", True),
        ("http://login.example", False),
        ("http://10.0.0.7", False),
        ("http://127.0.0.1.example", False),
        ("https://", False),
        ("https://user:pass@login.example", False),
        ("https://login.example?x=1", False),
        ("ftp://login.example", False),
    ],
)
@for_each("name", ["oauth_issuer", "oauth_jwks_url"])
def test_issuers_are_https_except_for_loopback(name, url, is_accepted):
    if is_accepted:
        assert getattr(Settings(_env_file=None, **{name: url}), name) == url
    else:
        with pytest.raises(ValidationError, match=name):
            Settings(_env_file=None, **{name: url})


async def test_the_metadata_of_an_issuer_cannot_move_its_keys_off_https(issuer, application):
    issuer.keys_url = "http://keys.example/keys"
    response = await request(application, token(issuer))
    assert response.status_code == 503
    assert "/keys" not in issuer.requests
