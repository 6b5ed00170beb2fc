"""The programs of README.md run as they stand."""

import asyncio
import json
import os
import re
import signal
import sys
from pathlib import Path

import pytest
from model_peers import ModelServer, Turn
from serving_peers import GatewayPeer

README = (Path(__file__).parents[1] / "README.md").read_text()
PROGRAMS = dict(
    zip(
        ("tools.py", "web.py", "executor.py", "books.py", "desk.py", "frameworks.py", "agent.py"),
        re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL),
        strict=True,
    )
)
CONSOLE = re.findall(r"^```\n(\$ .*?)^```", README, re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path):
    for name, text in PROGRAMS.items():
        (tmp_path / name).write_text(text)
    return tmp_path


async def start(folder: Path, *arguments: str, **environment: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, *arguments, cwd=folder, env={**os.environ, **environment},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip


async def test_quickstart_prints_what_the_page_says(folder):
    command, _, expected = CONSOLE[0].partition("\n")
    running = await start(folder, *command.split()[2:])
    printed, errors = await running.communicate()
    assert (printed.decode(), errors) == (expected, b"")


async def test_application_is_served_by_uvicorn_and_called_by_curl(folder):
    serving, calling, expected = CONSOLE[1].splitlines()
    # Port 8010 of this machine may be in use.
    server = await start(folder, "-m", *serving.replace("8010", "0").split()[1:])
    try:
        while b"Uvicorn running" not in (line := await server.stderr.readline()):
            assert line
        port = re.search(rb"127\.0\.0\.1:(\d+)", line)[1].decode()
        command = calling.removeprefix("$ ").replace("8010", port)
        curl = await asyncio.create_subprocess_shell(command, stdout=asyncio.subprocess.PIPE)
        printed, _ = await curl.communicate()
        assert json.loads(printed) == json.loads(expected)
    finally:
        server.terminate()
        await server.communicate()


async def test_executor_registers_and_executes(folder):
    peer = GatewayPeer("ugw_key")
    await peer.start()
    running = await start(folder, "executor.py", UTCP_GATEWAY_URL=peer.url, UTCP_GATEWAY_KEY=peer.key)
    try:
        connected = await peer.connections.get()
        assert connected.registration["metadata"]["executor"] == "orders"
        answer = await connected.call("get_order_status", {"order_id": 123})
        assert answer["result"]["value"] == "Shipped"
        running.send_signal(signal.SIGTERM)
        _, errors = await running.communicate()
    finally:
        if running.returncode is None:
            running.kill()
            await running.wait()
        await peer.stop()
    assert (running.returncode, errors) == (0, b"")


async def test_agent_calls_the_tool_and_prints_the_text(folder):
    _, _, expected = next(each for each in CONSOLE if "agent.py" in each).partition("\n")
    turns = [Turn(calls=(("get_order_status", {"order_id": 123}),)), Turn("Your order is shipped.")]
    with ModelServer(turns) as server:
        running = await start(folder, "agent.py", MODEL_URL=server.url, MODEL_KEY="k")
        printed, errors = await running.communicate()
    assert (printed.decode(), errors) == (expected, b"")
    assert server.requests[-1]["messages"][-1]["content"] == "Shipped"
