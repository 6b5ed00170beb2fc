"""`utcp-gateway sign-in-link`, and the greeting of `serve`."""

from pathlib import Path

import pytest

from app.cli.welcome import Welcome, build_console_address, greet, write_greeting
from app.core.settings import Settings

LINK = {"url": "http://127.0.0.1:8000/console/sign-in#ugl_token", "expires_at": "2030-01-01T00:00:00Z"}


def test_the_link_is_on_standard_output_alone(stub, run):
    stub.on("POST", "/session/link", LINK)

    ran = run("sign-in-link")

    assert (ran.code, ran.out.strip()) == (0, LINK["url"])
    assert "60 seconds" in ran.err
    assert run("sign-in-link", "-o", "json").json() == LINK


def test_a_rejected_link_says_why(stub, run):
    stub.problem("POST", "/session/link", status=403, title="Signing in needs HTTPS", hint="Open https.")

    ran = run("sign-in-link")

    assert ran.code != 0
    assert ran.out == ""
    assert "Open https." in ran.err


def greeting(stub, **members):
    stub.on("GET", "/health/ready", {"status": "ready"})
    return Welcome(address=stub.url, local=stub.url, **members)


def test_the_greeting_begins_with_a_link(stub, capsys):
    stub.on("POST", "/session/link", LINK)

    greet(greeting(stub, key="ugw_key", key_file=Path(".data/admin.key"), console=f"{stub.url}/console"))

    lines = capsys.readouterr().err.splitlines()
    assert lines[1] == f"  Console         {LINK['url']}"
    assert f"sign-in-link --url {stub.url})" in lines[2]
    assert lines[3] == f"  utcp-gateway listens on {stub.url}"


def test_the_link_of_the_first_start_is_valid_longer(stub, capsys):
    stub.on("POST", "/session/link", LINK)

    greet(greeting(stub, key="ugw_key", console=f"{stub.url}/console", first_token="ugl_first"))

    shown = capsys.readouterr().err
    assert "http://127.0.0.1:8000/console/sign-in#ugl_first\n" in shown
    assert "(valid once, for ten minutes; another" in shown


def test_without_a_key_the_greeting_has_the_address(stub, capsys):
    greet(greeting(stub, console=f"{stub.url}/console"))

    assert capsys.readouterr().err.splitlines()[1] == f"  Console         {stub.url}/console"
    assert ("POST", "/session/link") not in [(one.method, one.path) for one in stub.seen]


def test_a_link_that_cannot_be_made_is_left_out(stub, capsys):
    stub.problem("POST", "/session/link", status=401, title="A valid API key is required")

    greet(greeting(stub, key="ugw_key", console=f"{stub.url}/console"))

    assert f"  Console         {stub.url}/console\n" in capsys.readouterr().err


@pytest.mark.parametrize(("console", "address"), [(True, "http://gateway/console"), (False, None)])
def test_without_the_console_there_is_no_address(console, address):
    found = build_console_address(Settings(_env_file=None, console=console), "http://gateway")

    assert found == address
    text = write_greeting(Welcome(address="http://gateway", local="http://gateway", console=found))
    assert ("Console" in text) is console


def test_the_link_is_in_no_repr():
    shown = repr(Welcome(address="a", local="b", sign_in_link=LINK["url"], first_token="ugl_first"))
    assert "ugl_" not in shown
