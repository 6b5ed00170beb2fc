"""On a real terminal: secrets are asked for without echo, and colours are there."""

import os
import pty
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

CANARY = "typed-s3cr3t"


def on_terminal(*words: str, url: str, typed: str | None = None) -> tuple[int, str]:
    """Exit code and everything that the terminal showed; `typed` is typed once a prompt stands there."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "UTCP_GATEWAY_URL": url, "UTCP_GATEWAY_KEY": "k"}
    environment.pop("NO_COLOR", None)
    code = "from app.cli.main import main; main()"
    command = [sys.executable, "-c", code, *words]
    shown = b""
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                piece = os.read(ours, 4096)
            except OSError:
                break
            if not piece:
                break
            shown += piece
            if typed is not None and shown.rstrip().endswith((b":", b"[y/N]:")):
                # The terminal's echo is switched off a moment after the prompt is written.
                time.sleep(0.3)
                os.write(ours, typed.encode() + b"\n")
                typed = None
    os.close(ours)
    return process.returncode, shown.decode(errors="replace")


def test_secret_prompt_does_not_echo(stub: Any, clean_environment: None) -> None:
    stub.on("PUT", "/providers/api/credentials/main", {"slot": "main"})
    stub.on("GET", "/providers/api/credentials", {"items": [], "destinations": []})
    words = ("credentials", "set", "api", "main", "--kind", "bearer")
    code, shown = on_terminal(*words, url=stub.url, typed=CANARY)
    assert code == 0, shown
    assert stub.seen[-1].json() == {"kind": "bearer", "token": CANARY}
    assert "Token of main" in shown
    assert CANARY not in shown


@pytest.mark.parametrize(("typed", "stored"), [("y", 1), ("n", 0)])
def test_new_origin_needs_confirmation_on_a_terminal(
    stub: Any, clean_environment: None, tmp_path: Path, typed: str, stored: int
) -> None:
    one = {
        "slot": "main",
        "origins": ["https://a.example"],
        "registered": [],
        "stored": True,
        "token_url": None,
    }
    stub.on("PUT", "/providers/api/credentials/main", {"slot": "main"})
    stub.on("GET", "/providers/api/credentials", {"items": [], "destinations": [one]})
    secret = tmp_path / "secret"
    secret.write_text(CANARY)
    words = ("credentials", "set", "api", "main", "-k", "bearer", "--secret", f"@{secret}")
    code, shown = on_terminal(*words, "--allow-origin", "https://b.example", url=stub.url, typed=typed)
    assert code == 1 - stored, shown
    assert "sent to https://b.example" in shown
    assert len([request for request in stub.seen if request.method == "PUT"]) == stored


def test_remove_asks_on_a_terminal(stub: Any, clean_environment: None) -> None:
    stub.on("DELETE", "/providers/api")
    code, shown = on_terminal("providers", "remove", "api", url=stub.url, typed="n")
    assert code == 1, shown
    assert stub.seen == []


def test_terminal_gets_colours_but_no_escape_sequences_of_tools(stub: Any, clean_environment: None) -> None:
    tool = {"name": "a.b", "description": "\x1b]0;owned\x07", "enabled": True}
    stub.on("GET", "/tools", {"items": [tool], "next_cursor": None})
    _, shown = on_terminal("tools", "list", url=stub.url)
    assert "\x1b[1m" in shown
    assert "\x1b]0" not in shown
    assert "\x07" not in shown
