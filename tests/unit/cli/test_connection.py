"""Where commands connect to, with which key, and what they say when nobody is there."""

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import Response
from typer.core import TyperCommand, TyperGroup

from app.cli.root import COMMANDS, load_command
from app.cli.session import ConnectionOptions, GatewayCommand, find_api_key
from tests.harness.cases import for_each

Run = Callable[..., Any]
EMPTY = {"items": [], "next_cursor": None}


def closed_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


def test_key_of_the_environment_is_sent_as_bearer_token(run: Run, stub: Any) -> None:
    stub.on("GET", "/keys", EMPTY)
    assert run("keys", "list").code == 0
    assert stub.seen[0].headers["authorization"].startswith("Bearer utcpgw_")


def test_shared_options_work_before_and_after_the_command(run: Run, stub: Any) -> None:
    stub.on("GET", "/keys", EMPTY)
    assert run("--json", "--key", "before", "keys", "list").json() == EMPTY
    assert run("keys", "list", "--key", "after", "--json").json() == EMPTY
    assert run("--key", "before", "keys", "list", "--key", "after").code == 0
    assert [one.headers["authorization"] for one in stub.seen] == [
        "Bearer before",
        "Bearer after",
        "Bearer after",
    ]


def client_commands() -> list[TyperCommand]:
    """The commands of all groups, but for those of the operator, which hold no client."""
    found: list[TyperCommand] = []
    for name, entry in COMMANDS.items():
        command = load_command(name)
        if entry.module != "operator":
            found += _commands_of(command)
    return found


def _commands_of(command: TyperCommand | TyperGroup) -> list[TyperCommand]:
    if not isinstance(command, TyperGroup):
        return [command]
    return [found for member in command.commands.values() for found in _commands_of(member)]


def test_every_command_of_the_client_accepts_the_shared_options() -> None:
    commands = client_commands()
    assert len(commands) > 25
    assert all(isinstance(command, GatewayCommand) for command in commands)


def test_the_help_of_a_command_lists_the_shared_options(run: Run) -> None:
    ran = run("tools", "list", "--help")
    for option in ("--url", "--key", "--key-file", "--ca-file", "--json", "--limit"):
        assert option in ran.out
    assert "--url" not in run("openapi", "check", "--help").out


def test_a_key_file_after_the_command_hides_a_key_before_it(run: Run, stub: Any, tmp_path: Path) -> None:
    stub.on("GET", "/keys", EMPTY)
    (tmp_path / "key").write_text("from-file")
    assert run("--key", "before", "keys", "list", "--key-file", str(tmp_path / "key")).code == 0
    assert stub.seen[0].headers["authorization"] == "Bearer from-file"


def test_key_file_option_takes_precedence_over_the_environments_key(
    run: Run, stub: Any, tmp_path: Path
) -> None:
    stub.on("GET", "/keys", EMPTY)
    (tmp_path / "key").write_text("from-file\n")
    assert run("keys", "list", "--key-file", str(tmp_path / "key")).code == 0
    assert stub.seen[0].headers["authorization"] == "Bearer from-file"


def test_missing_key_file_is_a_usage_error(run: Run, stub: Any) -> None:
    ran = run("keys", "list", "--key-file", "absent")
    assert ran.code == 2
    assert "absent cannot be read" in ran.err
    assert stub.seen == []


def test_key_of_the_embedded_mode_is_the_default(run: Run, stub: Any, tmp_path: Path) -> None:
    stub.on("GET", "/keys", EMPTY)
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "admin.key").write_text("embedded\n")
    assert run("keys", "list", key=None, env={"DATA_DIR": str(folder)}).code == 0
    assert stub.seen[0].headers["authorization"] == "Bearer embedded"


def test_key_of_the_embedded_mode_is_found_through_env_file(run: Run, stub: Any, tmp_path: Path) -> None:
    stub.on("GET", "/keys", EMPTY)
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "admin.key").write_text("embedded")
    (tmp_path / ".env").write_text("DATA_DIR=d\nUTCP_GATEWAY_URL=http://203.0.113.1\n")
    assert run("keys", "list", key=None).code == 0
    assert stub.seen[0].headers["authorization"] == "Bearer embedded"


def test_key_of_the_embedded_mode_is_sent_to_loopback_only(run: Run, tmp_path: Path) -> None:
    """A `.env` or an option may name a foreign address; the admin key of this machine is not for it."""
    (tmp_path / ".data").mkdir()
    (tmp_path / ".data" / "admin.key").write_text("embedded")
    assert find_api_key(ConnectionOptions(), "http://gateway.example.com:8000") is None
    assert find_api_key(ConnectionOptions(), "http://127.0.0.1.example.com") is None
    assert find_api_key(ConnectionOptions(), "http://localhost:8000") == "embedded"
    assert find_api_key(ConnectionOptions(), "http://[::1]:8000") == "embedded"


def test_missing_key_gives_a_hint(run: Run, stub: Any) -> None:
    stub.problem("GET", "/keys", status=401, title="A valid API key is required", detail="No key was sent.")
    ran = run("keys", "list", key=None)
    assert "authorization" not in stub.seen[0].headers
    assert ran.code == 1
    assert ran.err.startswith("Error: A valid API key is required. No key was sent.")
    assert "UTCP_GATEWAY_KEY" in ran.err


def test_refused_connection_exits_with_3_and_names_the_address(run: Run) -> None:
    url = f"http://127.0.0.1:{closed_port()}"
    ran = run("tools", "list", "--url", url)
    assert ran.code == 3
    assert url in ran.err
    assert "Traceback" not in ran.err
    assert ran.out == ""


def test_unresolvable_name_exits_with_3(run: Run) -> None:
    assert run("tools", "list", "--url", "http://gateway.invalid").code == 3


def test_truncated_response_exits_with_3(run: Run, stub: Any) -> None:
    broken = Response(b"short", headers={"content-length": "500"})
    stub.on("GET", "/tools/x", broken)
    assert run("tools", "show", "x").code == 3


def test_redirects_are_not_followed(run: Run, stub: Any) -> None:
    stub.on("GET", "/tools", Response(status_code=307, headers={"location": stub.url + "/other"}))
    stub.on("GET", "/other", EMPTY)
    ran = run("tools", "list")
    assert ran.code == 3
    assert "redirects" in ran.err
    assert [one.path for one in stub.seen] == ["/tools"]


def test_proxy_variables_of_the_environment_are_ignored(run: Run, stub: Any) -> None:
    stub.on("GET", "/keys", EMPTY)
    proxy = f"http://127.0.0.1:{closed_port()}"
    assert run("keys", "list", env={"HTTP_PROXY": proxy, "ALL_PROXY": proxy, "http_proxy": proxy}).code == 0


def test_path_of_the_address_prefixes_requests(run: Run, stub: Any) -> None:
    stub.on("GET", "/behind/proxy/keys", EMPTY)
    assert run("keys", "list", "--url", stub.url + "/behind/proxy/").code == 0


@for_each(
    "url",
    ["gateway:8000", "ftp://gateway", "http://", "http://u:p@127.0.0.1:1", "http://h/?q=1", "http://[::"],
    violations={"url": "http://127.0.0.1:1"},
)
def test_invalid_address_is_a_usage_error(run: Run, url: str) -> None:
    ran = run("tools", "list", "--url", url)
    assert ran.code == 2
    assert "u:p" not in ran.err


@pytest.mark.parametrize("key", ["two words", "line\nbreak", "ключ"])
def test_invalid_key_is_a_usage_error_and_not_shown(run: Run, stub: Any, key: str) -> None:
    ran = run("tools", "list", "--key", key)
    assert ran.code == 2
    assert key not in ran.err
    assert stub.seen == []


def test_html_response_is_reported_as_not_from_a_gateway(run: Run, stub: Any) -> None:
    stub.on("GET", "/tools", Response("<h1>nginx</h1>", status_code=502, media_type="text/html"))
    ran = run("tools", "list")
    assert ran.code == 1
    assert "HTTP 502" in ran.err
    stub.on("GET", "/tools", Response("<h1>welcome</h1>", media_type="text/html"))
    assert run("tools", "list").code == 3


@for_each("name", ["..", ".", "", "a/../b", "x?y=1#z", "%2e%2e"])
def test_names_are_single_path_segments(run: Run, stub: Any, name: str) -> None:
    stub.seen.clear()
    run("tools", "show", name)
    for one in stub.seen:
        assert one.path.startswith("/tools/")
        assert one.path.count("/") == 2
        assert one.query == {}
