"""The sample API as a child process of `serve`."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest

from app.cli.sample import SampleError, read_registration, serve_sample_api, stop
from app.cli.welcome import Welcome, write_greeting

pytestmark = pytest.mark.process


def test_busy_port_raises_an_error_and_leaves_no_process(tmp_path):
    before = {p.pid for p in psutil.Process().children()}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = rf"127\.0\.0\.1 port {port}: Address already in use.*SAMPLE_PORT"
        with pytest.raises(SampleError, match=message), serve_sample_api(tmp_path, port=port):
            pass
    assert {p.pid for p in psutil.Process().children()} <= before


def test_child_gets_no_settings_and_no_secret_on_its_command_line(tmp_path, monkeypatch):
    monkeypatch.setenv("SEALING_KEYS", "k1:canary")
    before = {p.pid for p in psutil.Process().children()}
    with serve_sample_api(tmp_path, port=0) as body:
        (child,) = [p for p in psutil.Process().children() if p.pid not in before]
        seen = " ".join([*child.cmdline(), *child.environ().values()])
        assert "canary" not in seen
        assert body["credentials"]["memberKey"]["value"] not in seen
    assert not child.is_running()


def test_child_ends_when_its_parent_is_killed(tmp_path):
    code = (
        "import sys, time; from pathlib import Path; from app.cli.sample import serve_sample_api\n"
        "with serve_sample_api(Path(sys.argv[1]), port=0) as body:\n"
        "    print(body['source']['url'], flush=True)\n    time.sleep(60)"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[3]) as parent:
        assert parent.stdout.readline().startswith(b"http://")
        (child,) = psutil.Process(parent.pid).children()
        os.kill(parent.pid, 9)
    deadline = time.monotonic() + 10
    while child.is_running() and child.status() != psutil.STATUS_ZOMBIE and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_two_children_of_a_data_folder_have_the_same_credentials_and_state(tmp_path):
    def books(registration: Any) -> Any:
        url = registration["source"]["url"].replace("openapi.json", "books?limit=50")
        return httpx2.get(url, trust_env=False).json()

    with serve_sample_api(tmp_path, port=0) as one, serve_sample_api(tmp_path, port=0) as other:
        assert one["credentials"]["memberKey"] == other["credentials"]["memberKey"]
        assert books(one) == books(other)


def test_damaged_credentials_raise_an_error(tmp_path):
    (tmp_path / "sample.json").write_text("{}")
    with pytest.raises(SampleError, match=r"sample\.json are damaged"), serve_sample_api(tmp_path, port=0):
        pass


def test_child_that_announces_nothing_is_killed() -> None:
    # Half a line, and then silence.
    command = ["/bin/sh", "-c", "printf http; exec sleep 60"]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        with pytest.raises(SampleError, match="did not start"):
            read_registration(child, timeout=0.2)
    finally:
        stop(child)
    assert child.returncode == -9


def test_greeting_without_the_sample_says_how_to_register_an_api(tmp_path) -> None:
    greeting = Welcome(
        address="http://127.0.0.1:8000", local="http://127.0.0.1:8000", key_file=tmp_path / "admin.key"
    )
    text = write_greeting(greeting)
    assert "providers add https://api.example.com/openapi.json --name my-api" in text
    assert "library" not in text
    source = {"source": {"url": "http://127.0.0.1:8001/openapi.json"}}
    text = write_greeting(greeting.with_sample(source))
    assert "tools call library.searchBooks" in text
    assert "providers add http://127.0.0.1:8001/openapi.json" in text
