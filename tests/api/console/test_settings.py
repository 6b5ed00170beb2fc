"""Settings, state and support bundle: for unrestricted administrators, and without one secret."""

import json
import typing
from collections.abc import Iterator

import pytest
from pydantic import SecretStr

from app.core.settings import Settings
from app.security.masking import Masker
from app.server.support.effective_settings import list_effective_settings
from tests.harness.canaries import LeakSearch, canary
from tests.harness.cases import for_each
from tests.harness.gateway import RunningGateway, run_command, serve
from tests.harness.servers import Pair

PATHS = ("/settings", "/health/details", "/support-bundle", "/console/settings?which=all",
         "/console/settings/support-bundle.json")  # fmt: skip
# What has to be a real address, or is read at the start; its secret is searched for as it is.
_REAL = {"DATABASE_URL", "DATABASE_LISTEN_URL", "REDIS_URL", "SEALING_KEYS"}
SECRETS = [
    name.upper() for name, field in Settings.model_fields.items() if "SecretStr" in str(field.annotation)
]
IN_URLS = {
    "OTEL_EXPORTER_OTLP_ENDPOINT": "http://user:{}@127.0.0.1:9/otlp",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:9/v1/traces?api-key={}",
    "CORS_ORIGINS": "http://user:{}@one.example,https://two.example?token={}",
}
"""Settings that are no secrets, in whose URLs people put some all the same."""


@pytest.fixture(scope="module")
def planted(
    servers: Pair, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[RunningGateway, dict[str, str]]]:
    """A gateway with a secret in each setting that can hold one."""
    texts = {name: canary(name).replace("/+&=", "x") for name in (*SECRETS, *IN_URLS) if name not in _REAL}
    given = {name: IN_URLS.get(name, "{}").replace("{}", text) for name, text in texts.items()}
    given["OTEL_EXPORTER_OTLP_HEADERS"] = f"api-key={texts['OTEL_EXPORTER_OTLP_HEADERS']}"
    given["OTEL_SDK_DISABLED"] = "true"
    with serve(servers, tmp_path_factory.mktemp("settings"), **given) as running:
        for name in _REAL & running.environment.keys():
            texts[name] = running.environment[name]
        yield running, texts


def test_every_secret_setting_is_planted(planted):
    _, texts = planted
    assert set(SECRETS) - texts.keys() <= {"DATABASE_LISTEN_URL"}
    annotations = typing.get_type_hints(Settings)
    assert {name.upper() for name, hint in annotations.items() if SecretStr in typing.get_args(hint)} == set(
        SECRETS
    )


@for_each("path", PATHS)
def test_no_secret_is_in_the_response(planted, path):
    gateway, texts = planted
    with gateway.client() as client:
        response = client.get(path)
    assert response.status_code == 200, response.text
    search = LeakSearch({**texts, "key": gateway.key})
    assert search.leaks_in_response(path, response.headers, response.content) == []


def test_secrets_are_said_to_be_set_or_unset(planted):
    gateway, texts = planted
    with gateway.client() as client:
        items = {one["name"]: one for one in client.get("/settings").json()["items"]}
    for name in SECRETS:
        assert (items[name]["is_secret"], items[name]["value"]) == (True, None)
        assert items[name]["is_set"] is (name in texts)
    assert items["OTEL_EXPORTER_OTLP_ENDPOINT"]["value"] == "http://127.0.0.1:9/otlp"
    assert items["OTEL_SDK_DISABLED"]["is_default"] is False
    assert items["WORKERS"]["default"] == 1


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("https://user:hidden@tools.example/?key=hidden", "https://tools.example/?***"),
        ("https://user:hid/den@hidden@tools.example/x", "https://tools.example/x"),
        ("https://tools.example/x", "https://tools.example/x"),
    ],
)
def test_secrets_in_a_url_are_left_out(given, shown):
    settings = Settings(public_base_url=given, embedded=True)
    items = {one.name: one for one in list_effective_settings(settings, Masker())}
    assert items["PUBLIC_BASE_URL"].value == shown


def test_details_have_ids_of_the_ring_and_states(planted):
    gateway, _ = planted
    with gateway.client() as client:
        details = client.get("/health/details").json()
    assert details["database"]["state"] == details["redis"]["state"] == "ok"
    assert details["key_ring"]["stored"][0]["key_ring_id"] in details["key_ring"]["ids"]
    assert details["counts"]["keys"] == 1


def test_only_an_unrestricted_administrator_may_read_them(gateway):
    def key(**body: object) -> str:
        with gateway.client() as client:
            made = client.post("/keys", json={"name": "looks", **body})
        assert made.status_code == 201, made.text
        return str(made.json()["key"])

    operator = key(scopes=["providers:write", "keys:manage", "calls:read", "metrics:read"])
    restricted = key(scopes=["admin"], tags=["some"])
    for text in (operator, restricted):
        with gateway.client(text) as client:
            for path in PATHS:
                assert client.get(path).status_code == 403, path
    with gateway.client(operator) as client:
        assert 'href="/console/settings"' not in client.get("/console/keys").text


def test_commands_write_settings_and_bundle(planted, tmp_path):
    gateway, texts = planted
    key_file = tmp_path / "key"
    key_file.write_text(gateway.key)
    key_file.chmod(0o600)
    where = ("--url", gateway.url, "--key-file", str(key_file))
    listed = run_command("settings", "--changed", *where, environment=gateway.environment)
    assert listed.returncode == 0, listed.stderr
    assert "OTEL_SDK_DISABLED" in listed.stdout
    assert "(set)" in listed.stdout
    target = tmp_path / "bundle.json"
    written = run_command("support-bundle", str(target), *where, environment=gateway.environment)
    assert written.returncode == 0, written.stderr
    bundle = json.loads(target.read_bytes())
    assert bundle["details"]["database"]["state"] == "ok"
    assert LeakSearch(texts).leaks_in("bundle", target.read_bytes()) == []


def test_page_shows_changed_settings_first_and_finds_others(planted):
    gateway, _ = planted
    with gateway.client() as pages:
        changed = pages.get("/console/settings").text
        found = pages.get("/console/settings", params={"which": "all", "q": "call_log_mode"}).text
        everything = pages.get("/console/settings", params={"which": "all"})
    assert "OTEL_SDK_DISABLED" in changed
    assert "CALL_LOG_MODE" not in changed
    assert "CALL_LOG_MODE" in found
    assert len(everything.content) <= 60 * 1024
