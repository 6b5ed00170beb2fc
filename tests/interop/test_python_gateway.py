"""The clients of utcp_gateway_client at a running gateway, in the environment that has the library."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.cli.sample import serve_sample_api
from tests.harness.gateway import RunningGateway
from tests.interop.clients import HERE
from tests.interop.environments import install_client_library, required


@pytest.fixture
def library(gateway: RunningGateway, tmp_path: Path) -> Iterator[None]:
    """The sample API, registered as `library`."""
    with serve_sample_api(tmp_path, port=0) as registration, gateway.client() as client:
        made = client.post("/providers", json=registration | {"name": "library"})
        assert made.status_code == 201, made.text
        yield
        client.delete("/providers/library")


@pytest.mark.usefixtures("library")
def test_both_clients_use_the_tools_of_a_gateway(gateway: RunningGateway) -> None:
    interpreter = required(install_client_library)
    environment = {**os.environ, "UTCP_GATEWAY_URL": gateway.url, "UTCP_GATEWAY_KEY": gateway.key}
    done = subprocess.run(
        [str(interpreter), str(Path(HERE) / "python_gateway.py")],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    blocking, concurrent = seen["blocking"], seen["concurrent"]
    with gateway.client() as client:
        expected = client.post("/tools/library.searchBooks/call", json={"q": "sea", "limit": 3}).json()
    assert expected["items"]
    assert blocking["called"] == concurrent["called"] == expected
    assert blocking["events"] == concurrent["events"] == [expected]
    (message,) = blocking["messages"]
    assert (message["role"], message["tool_call_id"]) == ("tool", "call_1")
    assert json.loads(message["content"]) == expected
    assert concurrent["messages"] == blocking["end"] == blocking["messages"]
    assert blocking["health"] == "ready"
    assert blocking["scopes"] > 0
    assert "library.searchBooks" in blocking["found"]
    assert blocking["tool"] == "library_searchBooks"
    assert blocking["streamed"] == ["library.searchBooks"]
    assert blocking["summary"] == 200
    assert blocking["rest"] > 0
    assert concurrent["tools"] == blocking["tools"]
    assert "library.searchBooks" in blocking["tools"]
    assert blocking["replayed"] == [False, True]
    assert blocking["errors"] == ["InvalidArguments", "NotFound"]
    assert blocking["unknown"] == ["library.none"]
    assert gateway.key not in done.stdout + done.stderr


@pytest.mark.usefixtures("library")
def test_key_of_a_toolset_uses_it_with_parts_and_approvals(
    gateway: RunningGateway, repository_root: Path
) -> None:
    with gateway.client() as client:
        definition = {
            "tools": ["library.searchBooks", "library.getStock"],
            "changes": {
                "library.searchBooks": {"name": "find_books"},
                "library.getStock": {"name": "getStock"},
            },
        }
        made = [
            client.put("/toolsets/desk", json={"title": "Desk", "definition": definition}),
            client.patch("/tools/library.getStock", json={"requires_approval": True}),
            client.post(
                "/keys", json={"name": "desk", "scopes": ["tools:read", "tools:call"], "toolsets": ["desk"]}
            ),
            client.post(
                "/keys", json={"name": "decides", "scopes": ["tools:read", "tools:call", "approvals:decide"]}
            ),
        ]
        assert [each.is_success for each in made] == [True] * 4, [each.text for each in made]
        key, deciding = (each.json()["key"] for each in made[2:])
        expected = client.post("/tools/library.searchBooks/call", json={"q": "sea"}).json()
        environment = {
            **os.environ, "UTCP_GATEWAY_URL": gateway.url, "UTCP_GATEWAY_KEY": key, "DECIDING_KEY": deciding,
        }  # fmt: skip
        done = subprocess.run(
            [str(required(install_client_library)), str(Path(HERE) / "python_toolset.py")],
            env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        keys = {"UTCP_GATEWAY_KEY": key, "DECIDING_KEY": deciding}
        printed = run_program_of_the_readme("desk.py", gateway, repository_root, **keys)
        client.delete("/toolsets/desk")
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    blocking, concurrent = seen["blocking"], seen["concurrent"]
    names = ["find_books", "getStock"]
    assert blocking["listed"] == concurrent["listed"] == names
    assert set(blocking["found"]) <= set(names)
    assert blocking["exported"] == blocking["found"][:1] == ["find_books"]
    assert blocking["called"] == concurrent["called"] == expected
    assert blocking["messages"] == blocking["events"] == [expected]
    assert blocking["parts"] > 1
    assert blocking["books"] == concurrent["books"] == blocking["all"]
    assert blocking["uncut"] == 0
    assert blocking["outside"] == ["not-found", *names]
    assert blocking["approved"] == concurrent["approved"]
    assert blocking["approved"]["book_id"] == "bk-001"
    assert (blocking["own"], concurrent["state"]) == ("forbidden", "executed")
    assert blocking["rejected"] == ["rejected", "Not today."]
    assert printed.splitlines() == [str(names), str(len(blocking["all"])), "bk-001"]


def run_program_of_the_readme(name: str, gateway: RunningGateway, root: Path, **others: str) -> str:
    """Return what the program prints, in the environment that has the library."""
    page = (root / "packages" / "python" / "README.md").read_text()
    found = re.search(rf"^`{re.escape(name)}`.*?:\n\n```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert found is not None
    environment = {
        **os.environ, "UTCP_GATEWAY_URL": gateway.url, "UTCP_GATEWAY_KEY": gateway.key, **others,
    }  # fmt: skip
    done = subprocess.run(
        [str(required(install_client_library)), "-c", found[1]],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.usefixtures("library")
def test_program_of_the_readme_with_frameworks_runs(gateway: RunningGateway, repository_root: Path) -> None:
    printed = run_program_of_the_readme("frameworks.py", gateway, repository_root)
    of_langchain, of_pydantic_ai = printed.splitlines()
    name, _, found = of_langchain.partition(" ")
    assert name == "library_searchBooks"
    assert json.loads(found)["total"] == 1
    # TestModel repeats what the tool has returned.
    with gateway.client() as client:
        everything = client.post("/tools/library.searchBooks/call", json={}).json()
    assert json.loads(json.loads(of_pydantic_ai)[name]) == everything


@pytest.mark.usefixtures("library")
def test_program_of_the_readme_runs(gateway: RunningGateway, repository_root: Path) -> None:
    name, total, messages, pointer = run_program_of_the_readme("books.py", gateway, repository_root).split()
    assert name.startswith("library_")
    assert (total, messages, pointer) == ("1", "1", "/limit")
