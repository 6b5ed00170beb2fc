"""`utcp-gateway agent-test`: a file goes to the gateway, and results come back as a table, JSON or JUnit XML."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from starlette.responses import Response

from tests.harness.cases import for_each

Run = Callable[..., Any]
ID = "019a0000-0000-7000-8000-000000000014"
PATH = f"/agent-tests/{ID}"
STARTED = {"id": ID, "state": "running", "progress": {"done": 0, "total": 2}}
TEST = """
# Two models, side by side.
models: [gpt-4o, {model: qwen3, name: local, dialect: openai-chat, base_url: "https://m.example/v1"}]
plugins: [filesystem]
cases:
  - name: reads a file
    input: What does notes.txt say?
    assertions: [{type: contains, value: milk}]
    repeat: 3
"""


def result(*, passed: bool, model: str = "gpt-4o", **more: Any) -> dict[str, Any]:
    detail = {"type": "contains", "passed": passed, "message": "A sentence.", "weight": 1.0}
    return {
        "testCase": {"name": "reads a file", "input": "x"}, "model": model, "passed": passed,
        "score": float(passed), "response": "milk", "durationMs": 12, "assertionDetails": [detail],
        "calls": [{}, {}], "repeat": 1, "passRate": float(passed),
        "usage": {"inputTokens": 20, "outputTokens": 10, "cost": 0.0123, "currency": "USD"}, **more,
    }  # fmt: skip


def ended(*results: dict[str, Any], state: str = "done", **more: Any) -> dict[str, Any]:
    passed = sum(one["passed"] for one in results)
    summary = {"results": len(results), "passed": passed, "failed": len(results) - passed, "errors": 0}
    return {
        **STARTED, "state": state, "passed": passed == len(results), "results": list(results),
        "summary": summary, "warnings": [], **more,
    }  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "test.yaml"
    path.write_text(TEST)
    return str(path)


def serve(stub: Any, *states: dict[str, Any]) -> None:
    stub.on("POST", "/agent-tests", STARTED, status=202)
    stub.on("GET", PATH, STARTED, *states)


def test_results_are_a_table_once_the_test_has_ended(run: Run, stub: Any, file: str) -> None:
    serve(stub, ended(result(passed=True)))
    ran = run("agent-test", file)
    assert ran.code == 0
    row = next(line for line in ran.out.splitlines() if "reads a file" in line)
    assert row.split() == ["reads", "a", "file", "gpt-4o", "yes", "1.00", "2", "30", "0.0123", "USD"]
    assert "1 of 1 passed, 0 failed, 0 with an error, in 0.0 s of conversations." in ran.err
    sent = stub.seen[0]
    assert sent.headers["prefer"] == "respond-async"
    assert sent.json()["cases"][0]["name"] == "reads a file"


def test_a_result_that_has_not_passed_is_explained_and_is_exit_code_1(run: Run, stub: Any, file: str) -> None:
    failed = result(passed=False, model="claude-x")
    broken = result(passed=False, model="o3", error="The API is busy.", assertionDetails=[])
    serve(stub, ended(result(passed=True), failed, broken, warnings=["Plugin 'x' not found."]))
    ran = run("agent-test", file)
    assert ran.code == 1
    assert "reads a file with claude-x:\n  contains: A sentence." in ran.err
    assert "reads a file with o3:\n  The API is busy." in ran.err
    assert "Plugin 'x' not found." in ran.err


def test_json_is_the_whole_test(run: Run, stub: Any, file: str) -> None:
    serve(stub, ended(result(passed=False)))
    ran = run("agent-test", file, "--json")
    assert ran.code == 1
    assert orjson.loads(ran.out) == ended(result(passed=False))


def test_junit_is_written_to_a_file(run: Run, stub: Any, file: str, tmp_path: Path) -> None:
    xml = Response(b"<testsuites/>", media_type="application/xml")
    serve(stub, ended(result(passed=True)), xml)
    path = tmp_path / "results.xml"
    assert run("agent-test", file, "--junit", str(path)).code == 0
    assert path.read_bytes() == b"<testsuites/>"
    assert stub.seen[-1].query == {"format": "junit"}


def test_options_replace_what_the_file_says(run: Run, stub: Any, file: str) -> None:
    serve(stub, ended(result(passed=True)))
    run("agent-test", file, "--model", "claude-x", "-m", "o3", "--repeat", "2")
    sent = stub.seen[0].json()
    assert (sent["models"], sent["repeat"]) == (["claude-x", "o3"], 2)
    assert "repeat" not in sent["cases"][0]


def test_a_key_comes_from_where_the_command_line_says(
    run: Run, stub: Any, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCAL_KEY", "canary-7Qx")
    serve(stub, ended(result(passed=True)))
    ran = run("agent-test", file, "--api-key", "local=env:LOCAL_KEY")
    assert ran.code == 0
    assert stub.seen[0].json()["models"][1]["api_key"] == "canary-7Qx"
    assert "canary-7Qx" not in ran.out + ran.err


@for_each(
    ("text", "options", "said"),
    [
        ("models: [a", (), "neither YAML nor JSON"),
        ("- a", (), "must be an object"),
        ("input: a\ninput: b", (), "input"),
        (TEST, ("--api-key", "gpt-4o=env:X"), "no model of the file that is an object"),
        (TEST, ("--api-key", "local=plain"), "MODEL=env:NAME"),
        ("models: [{model: a, api_key: env:HOME}]\ninput: x", (), "A key is no part of a test file"),
        ("cases: [{models: [{model: a, api_key: '@/etc/passwd'}]}]", (), "A key is no part of a test file"),
    ],
)
def test_a_file_that_cannot_be_used_is_exit_code_2(
    run: Run, stub: Any, tmp_path: Path, text: str, options: tuple[str, ...], said: str
) -> None:
    stub.seen.clear()
    path = tmp_path / "test.yaml"
    path.write_text(text)
    ran = run("agent-test", str(path), *options)
    assert (ran.code, stub.seen) == (2, [])
    assert said in ran.err


def test_a_test_that_the_gateway_rejects_is_exit_code_2(run: Run, stub: Any, file: str) -> None:
    stub.problem("POST", "/agent-tests", status=422, title="The input is not valid", detail="See /models/0.")
    assert run("agent-test", file).code == 2


def test_a_test_that_has_failed_is_exit_code_1(run: Run, stub: Any, file: str) -> None:
    problem = {"title": "The gateway is stopping", "status": 503, "detail": "Run it again."}
    serve(stub, {**STARTED, "state": "failed", "problem": problem})
    ran = run("agent-test", file)
    assert ran.code == 1
    assert "The gateway is stopping. Run it again." in ran.err
