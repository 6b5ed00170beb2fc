"""Credentials, variables and keys: secrets come from standard input, files or the environment, never argv."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cases import for_each

Run = Callable[..., Any]
CANARY = "s3cr3t-canary"
PUT = ("PUT", "/providers/api/credentials/main")
GET = ("GET", "/providers/api/credentials")
HOME = "https://api.example.com"


def going(*origins: str, registered: tuple[str, ...] = (HOME,), stored: bool = False, **more: Any) -> Any:
    """What the gateway says of the credentials of `api`."""
    one = {"slot": "main", "origins": list(origins), "registered": list(registered), "stored": stored}
    return {"items": [], "destinations": [{**one, "token_url": None, **more}]}


def put(stub: Any) -> list[Any]:
    """The bodies that were stored."""
    return [one.json() for one in stub.seen if one.method == "PUT"]


@for_each(
    ("words", "body"),
    [
        (("--kind", "api_key"), {"kind": "api_key", "value": CANARY}),
        (
            ("-k", "api_key", "--location", "query", "--name", "key"),
            {"kind": "api_key", "value": CANARY, "location": "query", "name": "key"},
        ),
        (("-k", "basic", "--username", "ann"), {"kind": "basic", "username": "ann", "password": CANARY}),
        (("-k", "bearer"), {"kind": "bearer", "token": CANARY}),
        (
            ("-k", "static", "--location", "header", "--name", "X-Key"),
            {"kind": "static", "values": [{"location": "header", "name": "X-Key", "value": CANARY}]},
        ),
        (
            ("-k", "oauth2", "--client-id", "id", "--token-url", "https://a/t", "--scope", "r w"),
            {
                "kind": "oauth2",
                "client_id": "id",
                "client_secret": CANARY,
                "token_url": "https://a/t",
                "scope": "r w",
            },
        ),
        (("-k", "digest", "--username", "ann"), {"kind": "digest", "username": "ann", "password": CANARY}),
        (
            ("-k", "aws_sigv4", "--access-key-id", "A", "--region", "eu-west-1", "--service", "s3"),
            {
                "kind": "aws_sigv4",
                "access_key_id": "A",
                "region": "eu-west-1",
                "service": "s3",
                "secret_access_key": CANARY,
            },
        ),
        (
            ("-k", "hmac", "--key-id", "7", "--recipe", '{"algorithm": "sha512"}'),
            {"kind": "hmac", "key_id": "7", "algorithm": "sha512", "secret": CANARY},
        ),
        (
            ("-k", "google_service_account", "--scope", "s", "--subject", "me@example.com"),
            {"kind": "google_service_account", "scope": "s", "subject": "me@example.com", "key": CANARY},
        ),
        (
            ("-k", "oauth2", "--client-id", "id", "--grant-type", "refresh_token"),
            {"kind": "oauth2", "client_id": "id", "grant_type": "refresh_token", "refresh_token": CANARY},
        ),
        (
            ("-k", "oauth2", "--issuer", "me", "--grant-type", "jwt_bearer", "--key-id", "k"),
            {
                "kind": "oauth2",
                "issuer": "me",
                "grant_type": "jwt_bearer",
                "key_id": "k",
                "private_key": CANARY,
            },
        ),
        (
            ("-k", "oauth2", "--client-id", "id", "--token-endpoint-auth-method", "private_key_jwt"),
            {
                "kind": "oauth2",
                "client_id": "id",
                "token_endpoint_auth_method": "private_key_jwt",
                "private_key": CANARY,
            },
        ),
    ],
)
def test_each_kind_takes_its_secret_from_standard_input(
    run: Run, stub: Any, words: tuple[str, ...], body: dict[str, Any]
) -> None:
    stub.seen.clear()
    stub.on(*GET, going(HOME))
    stub.on(*PUT, {"slot": "main", "allowed_origins": [HOME]})
    ran = run("credentials", "set", "api", "main", *words, "--secret", "-", stdin=CANARY + "\n")
    assert ran.code == 0, ran.err
    # What was shown is what is stored.
    assert put(stub) == [{**body, "allowed_origins": [HOME]}]
    assert CANARY not in ran.out + ran.err
    assert HOME in ran.err


def test_a_secret_may_come_from_a_file_or_the_environment(run: Run, stub: Any, tmp_path: Path) -> None:
    stub.on(*GET, going(HOME))
    stub.on(*PUT, {"slot": "main"})
    (tmp_path / "s").write_text(CANARY + "\r\n")
    run("credentials", "set", "api", "main", "-k", "bearer", "--secret", f"@{tmp_path / 's'}")
    run("credentials", "set", "api", "main", "-k", "bearer", "--secret", "env:TOK", env={"TOK": CANARY})
    assert [one["token"] for one in put(stub)] == [CANARY, CANARY]


def test_secret_on_the_command_line_is_rejected_and_not_repeated(run: Run, stub: Any) -> None:
    for words in (
        ("credentials", "set", "api", "main", "-k", "bearer", "--secret", CANARY),
        ("variables", "set", "TOKEN", "--secret", CANARY),
    ):
        ran = run(*words)
        assert ran.code == 2
        assert CANARY not in ran.out + ran.err
    assert stub.seen == []


def test_empty_secret_is_rejected(run: Run, stub: Any) -> None:
    assert run("credentials", "set", "api", "main", "-k", "bearer", stdin="\n").code == 2
    assert run("variables", "set", "T", "--secret", "env:NOT_THERE").code == 2
    assert stub.seen == []


@pytest.mark.parametrize(
    "words",
    [
        ("-k", "basic"),
        ("-k", "oauth2"),
        ("-k", "bearer", "--username", "ann"),
        ("-k", "api_key", "--scope", "x"),
    ],
)
def test_options_of_another_kind_or_missing_ones_are_usage_errors(
    run: Run, stub: Any, words: tuple[str, ...]
) -> None:
    ran = run("credentials", "set", "api", "main", *words, stdin=CANARY)
    assert ran.code == 2
    assert stub.seen == []


def test_rejected_credential_is_not_echoed(run: Run, stub: Any) -> None:
    stub.on(*GET, going(HOME))
    stub.problem(*PUT, status=422, title="The input is not valid", detail="Wrong.", errors=[
        {"pointer": "/token", "detail": "must not contain control characters"},
    ])  # fmt: skip
    ran = run("credentials", "set", "api", "main", "-k", "bearer", "--json", stdin=CANARY)
    assert ran.code == 1
    assert CANARY not in ran.out + ran.err
    assert ran.json()["errors"][0]["pointer"] == "/token"


def test_allowed_origins_are_sent(run: Run, stub: Any) -> None:
    stub.on(*GET, going(registered=("https://A.example", "https://b.example/")))
    stub.on(*PUT, {"slot": "main"})
    origins = ("--allow-origin", "https://a.example", "--allow-origin", "https://b.example")
    run("credentials", "set", "api", "main", "-k", "bearer", *origins, stdin=CANARY)
    assert put(stub)[0]["allowed_origins"] == ["https://a.example", "https://b.example"]


ELSEWHERE = ("--allow-origin", "https://new.example")
OAUTH2 = ("-k", "oauth2", "--client-id", "i")


@for_each(
    ("known", "words", "new"),
    [
        (going(HOME, stored=True), ("-k", "bearer", *ELSEWHERE), "https://new.example"),
        (going(HOME), ("-k", "bearer", *ELSEWHERE), "https://new.example"),
        (going(HOME, "https://base.example"), ("-k", "bearer"), "https://base.example"),
        (going(registered=()), ("-k", "bearer", *ELSEWHERE), "https://new.example"),
        (
            going(HOME, stored=True, token_url="https://old.example/t"),
            (*OAUTH2, "--token-url", "https://new.example/t"),
            "https://new.example/t",
        ),
    ],
)
def test_another_destination_is_shown_and_stored_only_with_yes(
    run: Run, stub: Any, known: Any, words: tuple[str, ...], new: str
) -> None:
    stub.seen.clear()
    stub.on(*GET, known)
    stub.on(*PUT, {"slot": "main"})
    ran = run("credentials", "set", "api", "main", *words, stdin=CANARY)
    assert (ran.code, put(stub)) == (2, [])
    assert new in ran.err
    assert "--yes" in ran.err
    assert CANARY not in ran.out + ran.err
    ran = run("credentials", "set", "api", "main", *words, "--yes", stdin=CANARY)
    assert ran.code == 0, ran.err
    assert len(put(stub)) == 1


def test_rotation_to_the_same_origins_needs_no_confirmation(run: Run, stub: Any) -> None:
    stub.on(*GET, going("https://old.example", stored=True))
    stub.on(*PUT, {"slot": "main"})
    ran = run("credentials", "set", "api", "main", "-k", "bearer", stdin=CANARY)
    assert ran.code == 0, ran.err
    assert put(stub) == [{"kind": "bearer", "token": CANARY, "allowed_origins": ["https://old.example"]}]


def test_key_without_scope_to_read_providers_needs_yes(run: Run, stub: Any) -> None:
    stub.problem(*GET, status=403, title="No", detail="The API key lacks the scope.")
    stub.on(*PUT, {"slot": "main"})
    words = ("credentials", "set", "api", "main", "-k", "bearer")
    ran = run(*words, stdin=CANARY)
    assert (ran.code, put(stub)) == (2, [])
    assert run(*words, "--yes", stdin=CANARY).code == 0
    assert put(stub) == [{"kind": "bearer", "token": CANARY}]


def test_variables_are_plain_or_secret(run: Run, stub: Any) -> None:
    stub.on("PUT", "/variables/REGION", {"name": "REGION"})
    stub.on("PUT", "/providers/api/variables/TOKEN", {"name": "TOKEN"})
    assert run("variables", "set", "REGION", "eu").code == 0
    assert run("variables", "set", "TOKEN", "--secret", "-", "--provider", "api", stdin=CANARY).code == 0
    assert [one.json() for one in stub.seen] == [
        {"value": "eu", "secret": False},
        {"value": CANARY, "secret": True},
    ]


@pytest.mark.parametrize("words", [("A",), ("A", "x", "--secret", "-")])
def test_a_variable_has_exactly_one_value(run: Run, stub: Any, words: tuple[str, ...]) -> None:
    assert run("variables", "set", *words, stdin="y").code == 2
    assert stub.seen == []


def test_secret_variables_are_listed_without_value(run: Run, stub: Any) -> None:
    items = [{"name": "A", "secret": True}, {"name": "B", "secret": False, "value": "plain"}]
    stub.on("GET", "/variables", {"items": items, "next_cursor": None})
    ran = run("variables", "list")
    assert "***" in ran.out
    assert "plain" in ran.out


def test_env_files_are_imported_as_they_are(run: Run, stub: Any, tmp_path: Path) -> None:
    stub.on("POST", "/variables/import", {"stored": ["A", "B"], "created": ["B"]})
    content = f"# comment\nexport A='{CANARY}'\nB=2\n"
    (tmp_path / ".env").write_text(content)
    ran = run("variables", "import", ".env")
    assert ran.code == 0, ran.err
    assert stub.seen[0].body.decode() == content
    assert CANARY not in ran.out + ran.err


def test_a_new_key_is_alone_on_standard_output(run: Run, stub: Any) -> None:
    stub.on("POST", "/keys", {"id": "k1", "key": "utcpgw_new", "name": "ci"}, status=201)
    ran = run(
        "keys", "create", "ci", "-s", "tools:call", "-s", "tools:read", "--expires", "30d", "--tag", "t"
    )
    assert ran.out == "utcpgw_new\n"
    body = stub.seen[0].json()
    assert body.pop("expires_at")
    assert body == {"name": "ci", "scopes": ["tools:call", "tools:read"], "tags": ["t"]}


@for_each("when", ["tomorrow", "30", "-1d", "30y", "2030-13-01"], violations={"when": "30d"})
def test_invalid_expiry_is_a_usage_error(run: Run, stub: Any, when: str) -> None:
    stub.seen.clear()
    assert run("keys", "create", "ci", "-s", "admin", f"--expires={when}").code == 2
    assert stub.seen == []


def test_a_key_with_a_rate_limit(run: Run, stub: Any) -> None:
    stub.on("POST", "/keys", {"id": "k1", "key": "utcpgw_new"}, status=201)
    assert run("keys", "create", "ci", "-s", "tools:call", "--rate", "100/60:20").code == 0
    assert stub.seen[0].json()["rate_limit"] == {"requests": 100, "per_seconds": 60, "burst": 20}


@pytest.mark.parametrize("rate", ["100", "0/60", "100/60:", "a/b"])
def test_invalid_rate_is_a_usage_error(run: Run, stub: Any, rate: str) -> None:
    assert run("keys", "create", "ci", "-s", "admin", f"--rate={rate}").code == 2
    assert stub.seen == []


def test_revoking_and_removing(run: Run, stub: Any) -> None:
    stub.on("GET", "/keys/k1", {"id": "k1", "name": "ci"})
    stub.on("DELETE", "/keys/k1")
    stub.on("DELETE", "/variables/A")
    stub.on("DELETE", "/providers/api/credentials/main")
    assert run("keys", "revoke", "k1", "--yes", "--json").json() == {"revoked": ["k1"]}
    assert run("variables", "remove", "A").code == 0
    assert run("credentials", "remove", "api", "main").code == 0
    assert run("keys", "revoke", "k2", "--yes").code == 1


def test_further_secrets_come_from_sources_of_their_own(
    run: Run, stub: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub.on(*GET, going(HOME))
    stub.on(*PUT, {"slot": "main", "allowed_origins": [HOME]})
    monkeypatch.setenv("SESSION", "the-session-token")
    aws = ("-k", "aws_sigv4", "--access-key-id", "A", "--region", "r", "--service", "s3")
    ran = run("credentials", "set", "api", "main", *aws, "--session-token", "env:SESSION", stdin=CANARY)
    assert ran.code == 0, ran.err
    recipe = tmp_path / "recipe.json"
    recipe.write_text('{"encoding": "base64"}')
    ran = run("credentials", "set", "api", "main", "-k", "hmac", "--recipe", f"@{recipe}", stdin=CANARY)
    assert ran.code == 0, ran.err
    first, second = put(stub)
    assert (first["session_token"], second["encoding"]) == ("the-session-token", "base64")


@pytest.mark.parametrize(
    "words",
    [
        ("-k", "hmac", "--recipe", "[1]"),
        ("-k", "bearer", "--recipe", "{}"),
        ("-k", "hmac", "--session-token", "env:HOME"),
        ("-k", "aws_sigv4", "--region", "r", "--service", "s3"),
    ],
)
def test_an_option_of_another_kind_stores_nothing(run: Run, stub: Any, words: tuple[str, ...]) -> None:
    assert run("credentials", "set", "api", "main", *words, stdin=CANARY).code == 2
    assert put(stub) == []
