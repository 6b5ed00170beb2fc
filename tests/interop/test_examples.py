"""The commands of the pages in examples/ print what the pages say: a real gateway, and models that are scripted."""

import json
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from app.cli.sample import serve_sample_api
from tests.harness.beside import beside, web_server
from tests.harness.gateway import PROGRAM, RunningGateway, serve
from tests.harness.model_peers import Turn, peers
from tests.harness.servers import Pair
from tests.interop.environments import install_client_library, required
from tests.protocols.kits.base import free_port

ROOT = Path(__file__).parents[2]
_STEP = re.compile(r"^\$ ([^\n]+)\n((?:(?!\$ )[^\n]*\n)*)", re.MULTILINE)
_BLOCK = re.compile(r"^```\n(\$ .*?)^```", re.MULTILINE | re.DOTALL)
BOOK = {"records": {"/books/OL7353617M": {"data": {"title": "Matilda"}}}}
SEARCH = ("library_searchBooks", {"q": "sea-wolf"})
HOURS = ("library_getOpeningHours", {"day": "saturday"})


def last_result(body: dict[str, Any]) -> str:
    """Return the text of the last result in a request of any provider, or the last message in words."""
    dialect = "openai-chat" if any(one["role"] == "tool" for one in body["messages"]) else "anthropic"
    text: str = peers.results(dialect, body)[-1][1]
    return text


def steps(page: Path) -> list[tuple[str, str]]:
    """Return the commands of a page, each with what it prints according to the page."""
    return [step for block in _BLOCK.findall(page.read_text()) for step in _STEP.findall(block)]


class Example:
    """A folder of examples/, copied, with other addresses in its files."""

    def __init__(self, name: str, folder: Path, environment: dict[str, str], **replaced: str) -> None:
        self.errors = ""
        self._environment = environment
        self._folder = folder
        target = folder / "examples" / name
        shutil.copytree(ROOT / "examples" / name, target, ignore=shutil.ignore_patterns("__pycache__"))
        for file in (one for one in target.rglob("*") if one.is_file()):
            text = file.read_text()
            for before, after in replaced.items():
                text = text.replace(before, after)
            file.write_text(text)
        self._steps = steps(target / "README.md")

    def run(
        self,
        ready: Callable[[], Any] = lambda: True,
        before: Mapping[str, Callable[[], Any]] | None = None,
    ) -> None:
        """Run the commands, and compare what they print; `ready` becomes true once the first one serves.

        `before` has what is done before a command that contains a text.
        """
        assert self._steps
        printed, expected = [], [(command, text.rstrip("\n")) for command, text in self._steps]
        with self._started([command for command, _ in self._steps if command.endswith(" &")]) as serving:
            while not ready():
                assert all(process.poll() is None for process in serving)
                time.sleep(0.02)
            for command, _ in self._steps:
                for text, action in (before or {}).items():
                    if text in command:
                        action()
                printed.append((command, "" if command.endswith(" &") else self._output(command)))
        # The command line writes what a tool returns as it is: without a line break at its end.
        assert [(command, text.rstrip("\n")) for command, text in printed] == expected

    @contextmanager
    def _started(self, commands: list[str]) -> Iterator[list[subprocess.Popen[bytes]]]:
        processes: list[subprocess.Popen[bytes]] = []
        try:
            for command in commands:
                started = self._words(f"exec {command.removesuffix(' &')}")
                processes.append(subprocess.Popen(started, cwd=self._folder, env=self._environment))
            yield processes
        finally:
            for process in processes:
                process.terminate()
                process.wait()

    def _output(self, command: str) -> str:
        done = subprocess.run(
            self._words(command),
            cwd=self._folder, env=self._environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stderr[-3000:]}"
        self.errors += done.stderr
        return done.stdout

    def _words(self, command: str) -> list[str]:
        return ["bash", "-c", command.replace(".venv/bin", str(PROGRAM.parent))]


@pytest.fixture(scope="module")
def environment(gateway: RunningGateway) -> dict[str, str]:
    """The variables of a terminal after the set-up, without models."""
    interpreter = required(install_client_library)
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
    return kept | {
        "PATH": f"{interpreter.parent}:{os.environ['PATH']}",
        "UTCP_GATEWAY_URL": gateway.url,
        "UTCP_GATEWAY_KEY": gateway.key,
        "OPENAI_API_KEY": "a-key",
        "ANTHROPIC_API_KEY": "a-key",
    }


@contextmanager
def scripted(environment: dict[str, str], *turns: Any) -> Iterator[tuple[dict[str, str], list[Any]]]:
    """Serve a model of both providers; the values are the variables with its address, and its requests."""
    with peers.ModelServer(list(turns)) as server:
        yield (
            environment | {"OPENAI_BASE_URL": server.url, "ANTHROPIC_BASE_URL": server.url},
            server.requests,
        )


@pytest.fixture(scope="module")
def _library(gateway: RunningGateway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The sample API, registered as `make run` does it."""
    with (
        serve_sample_api(tmp_path_factory.mktemp("sample"), port=0) as registration,
        gateway.client() as client,
    ):
        made = client.post("/providers", json=registration)
        assert made.status_code == 201, made.text
        yield
        client.delete("/providers/library")


@pytest.fixture
def open_library() -> Iterator[tuple[str, list[str]]]:
    """The address of a server in the place of openlibrary.org, and what was requested of it."""
    requested: list[str] = []

    async def respond(request: web.Request) -> web.Response:
        requested.append(request.raw_path)
        return web.json_response(BOOK)

    application = web.Application()
    application.router.add_get("/{path:.*}", respond)
    with beside(web_server(application)) as url:
        yield url, requested


def test_ubp_order_status(gateway: RunningGateway, environment: dict[str, str], tmp_path: Path) -> None:
    turns = (
        Turn(calls=(("get_order_status", {"order_id": 123}),)),
        lambda body: Turn(f"The status of order #123 is: {last_result(body)}."),
    )
    with scripted(environment, *turns) as (variables, requests), gateway.client() as client:

        def is_executed() -> bool:
            called = client.post("/tools/orders.get_order_status/call", json={"order_id": 122})
            return called.status_code == 200

        try:
            Example("ubp_order_status", tmp_path, variables).run(is_executed)
        finally:
            # The name belongs to the key of the example; other tests of this gateway use it, too.
            client.delete("/providers/orders")
    asked, answered = requests
    assert asked["messages"] == [{"role": "user", "content": "What is the status of order #123?"}]
    assert [each["function"]["name"] for each in asked["tools"]] == ["get_order_status"]
    assert last_result(answered) == "Shipped"


def test_utcp_openlibrary(
    environment: dict[str, str], tmp_path: Path, open_library: tuple[str, list[str]]
) -> None:
    url, requested = open_library
    port = str(free_port())
    call = {"key_type": "isbn", "value": "9780140328721", "format": "json"}

    def text_of(name: str, arguments: dict[str, str]) -> Any:
        return Turn(f"I call it: {json.dumps({'tool_name': name, 'arguments': arguments})}")

    def weather(body: dict[str, Any]) -> Any:
        result = json.loads(body["messages"][-1]["content"].partition("\n")[2])
        return Turn(f"It is {result['temperature']} degrees.")

    turns = (
        text_of("openlibrary_read_volumes_brief", call),
        lambda body: Turn(
            "It is Matilda." if "Matilda" in body["messages"][-1]["content"] else "I do not know."
        ),
        text_of("weather_get_weather", {"location": "Paris"}),
        weather,
    )

    def serves() -> bool:
        with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", int(port))):
            return True
        return False

    with scripted(environment, *turns) as (variables, requests):
        replaced = {"https://openlibrary.org": url, "8020": port}
        Example("utcp_openlibrary", tmp_path, variables, **replaced).run(serves)
    assert requested == ["/api/volumes/brief/isbn/9780140328721.json?format=json"]
    assert all("tools" not in body for body in requests)
    # The tools that the searches found, and the history of the conversation.
    assert "openlibrary_read_volumes_brief" in requests[0]["messages"][0]["content"]
    assert "weather_get_weather" in requests[2]["messages"][0]["content"]
    contents = [each["content"] for each in requests[2]["messages"]]
    assert "Which book has the ISBN 9780140328721?" in contents
    assert contents[-2:] == ["It is Matilda.", "What is the weather in Paris?"]


def test_python_functions(environment: dict[str, str], tmp_path: Path) -> None:
    turns = (
        Turn(calls=(("get_weather", {"location": "San Jose, USA"}),)),
        lambda body: Turn(f"It is {last_result(body)} degrees."),
        Turn(calls=(("get_thermostat_temperature", {}),)),
        lambda body: Turn(calls=(("set_thermostat_temperature", {"temp": float(last_result(body)) + 10}),)),
        Turn("The thermostat is set to 70 degrees."),
    )
    with scripted(environment, *turns) as (variables, requests):
        Example("python_functions", tmp_path, variables).run()
    assert [each["role"] for each in requests[1]["messages"]] == ["system", "user", "assistant", "tool"]
    assert [each["content"] for each in requests[4]["messages"] if each["role"] == "tool"] == ["60", ""]


@pytest.mark.usefixtures("_library")
def test_toolclad_loop(environment: dict[str, str], tmp_path: Path) -> None:
    def found(body: dict[str, Any]) -> Any:
        return Turn(f"The library has {json.loads(last_result(body))['items'][0]['title']}.")

    search = Turn("I search the catalogue.", calls=(SEARCH,))
    with scripted(environment, search, found, search, found, search) as (variables, requests):
        example = Example("toolclad_loop", tmp_path, variables)
        example.run()
    assert len(requests) == 5
    assert "gpt-5, iteration 1: 1 calls" in example.errors
    assert "library_searchBooks: success" in example.errors
    # The log has neither arguments nor results.
    assert "sea-wolf" not in example.errors.lower()
    assert "Jack London" not in example.errors


def test_plugins(servers: Pair, environment: dict[str, str], tmp_path: Path) -> None:
    workspace = tmp_path / "prpm-test"
    workspace.mkdir()

    def noted(body: dict[str, Any]) -> Any:
        assert "bytes_written" in last_result(body)
        return Turn("From 09:00 on Saturday; it is in visit.txt.")

    note = ("write_file", {"path": "visit.txt", "content": "From 09:00 on Saturday."})
    every = Turn(calls=(SEARCH, HOURS, note))
    with (
        serve(servers, tmp_path, FILESYSTEM_FOLDERS=str(workspace)) as gateway,
        serve_sample_api(tmp_path, port=0) as registration,
        gateway.client() as client,
        scripted(environment, every, noted, every, noted) as (variables, requests),
    ):
        assert client.post("/providers", json=registration).status_code == 201
        own = variables | {"UTCP_GATEWAY_URL": gateway.url, "UTCP_GATEWAY_KEY": gateway.key}
        example = Example("plugins", tmp_path, own, **{"/tmp/prpm-test": str(workspace)})
        example.run()
    assert "Plugin 'unknown' not found in registry" in example.errors
    assert (workspace / "visit.txt").read_text() == "From 09:00 on Saturday."
    claude, _, gpt, _ = requests
    assert "input_schema" in claude["tools"][0]
    names = ["library_getOpeningHours", "library_searchBooks", "read_file", "write_file"]
    assert sorted(each["name"] for each in claude["tools"]) == names
    assert sorted(each["function"]["name"] for each in gpt["tools"]) == names


def test_record_replay(gateway: RunningGateway, tmp_path: Path) -> None:
    """The API is stopped before the recording is imported."""
    environment = {
        "PATH": os.environ["PATH"],
        "UTCP_GATEWAY_URL": gateway.url,
        "UTCP_GATEWAY_KEY": gateway.key,
    }
    with ExitStack() as running, gateway.client() as client:
        registration = running.enter_context(serve_sample_api(tmp_path / "sample", port=0))
        made = client.post("/providers", json={**registration, "name": "branch"})
        assert made.status_code == 201, made.text
        example = Example("record_replay", tmp_path, environment, **{"library.": "branch."})
        example.run(before={"recordings import": running.close})
        found = client.get("/calls", params={"provider": "branch", "source": "upstream"}).json()["items"]
        recorded = json.loads((tmp_path / "librarian.json").read_text())["interactions"]
        assert len(found) == len(recorded)
        client.delete("/providers/branch")


def test_agent_tests(servers: Pair, tmp_path: Path) -> None:
    def respond(body: dict[str, Any]) -> Any:
        messages = body["messages"]
        first = next(one["content"] for one in messages if one["role"] == "user")
        is_first = messages[-1]["content"] == first
        if "Saturday" in first:
            return Turn("From 09:00 to 13:00.")
        if "copies" in first:
            stock = Turn(calls=(("library_getStock", {"book_id": "bk-001"}),))
            return stock if is_first else Turn('```json\n{"copies": 2}\n```')
        found = Turn(calls=(("library_searchBooks", {"q": "sea"}),))
        return found if is_first else Turn(f"We have {json.loads(last_result(body))['items'][0]['title']}.")

    models: dict[str, Any] = {"OPENAI_API_KEY": "a-key", "ANTHROPIC_API_KEY": "a-key"}
    with peers.ModelServer([respond]) as model:
        models |= {"OPENAI_BASE_URL": model.url, "ANTHROPIC_BASE_URL": model.url}
        with (
            serve(servers, tmp_path, **models) as gateway,
            serve_sample_api(tmp_path / "sample", port=0) as registration,
            gateway.client() as client,
        ):
            assert client.post("/providers", json=registration).status_code == 201
            variables = {name: os.environ[name] for name in ("HOME", "LANG", "PATH") if name in os.environ}
            variables |= {"UTCP_GATEWAY_URL": gateway.url, "UTCP_GATEWAY_KEY": gateway.key}
            example = Example("agent_tests", tmp_path, variables)
            example.run()
    assert "opening hours with gpt-5:\n  not_contains: The response contains" in example.errors
    assert "Plugin 'calendar' not found: it was skipped." in example.errors
    assert (tmp_path / "results.xml").read_text().count("<testcase ") == 4


def test_toolclad(
    servers: Pair, environment: dict[str, str], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    settings: dict[str, Any] = {"PROGRAMS": "/usr/bin/seq,/usr/bin/factor", "CALL_LOG_BODIES": "all"}
    if os.geteuid() == 0:
        settings["PROGRAM_USER"] = "nobody"
    folder = tmp_path_factory.mktemp("gateway")
    with serve_sample_api(tmp_path, port=0) as registration, serve(servers, folder, **settings) as own:
        variables = environment | {"UTCP_GATEWAY_URL": own.url, "UTCP_GATEWAY_KEY": own.key}
        books = registration["source"]["url"].removesuffix("/openapi.json")
        Example("toolclad", tmp_path, variables, **{"http://127.0.0.1:8001": books}).run()
