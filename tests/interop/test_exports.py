"""Every tool, exported in each format, is accepted by the types of the released SDKs and within the rules of the dialect and the
subset of its provider; calls of it are valid for the original, and valid calls of the original can be written for it.

The tools are those of `filled_registry`. Each has 3 calls, or EXPORT_VALUES; the figures are printed with `-rP`.
"""

import json
import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import httpx2
import jsonschema_rs
import pytest

from app.errors import InvalidArguments
from app.json_schema.validator import ArgumentValidator
from app.tool_schemas.aliases import undo
from app.tool_schemas.dialects import FORMATS, Format, Strict, dialect
from tests.harness.dialect_rules import broken_rules
from tests.harness.exported_calls import as_exported, record_of
from tests.harness.json_form import json_schema_of
from tests.harness.schema_values import values_of
from tests.interop.clients import run_program
from tests.interop.environments import FOLDER, install_npm, interpreter, required
from tests.interop.provider_schemas import OPENAI_STRICT, PROVIDERS, broken
from tests.interop.test_manual_models import client

__all__ = ["client"]

HERE = Path(__file__).parent
AI_SDK = HERE / "ai_sdk"
STRICT: tuple[Strict, ...] = ("auto", "true", "false")
SDKS = (
    "openai-chat", "openai-responses", "anthropic", "gemini", "gemini-openapi", "bedrock", "mistral", "cohere", "ollama",
    "langchain",
)  # fmt: skip
TARGETS = tuple(name for name in FORMATS if name not in ("utcp", "mcp"))
VALUES = int(os.environ.get("EXPORT_VALUES", "3"))


def exported(client: httpx2.Client, target: str, strict: Strict) -> dict[str, Any]:
    query: dict[str, str | int] = {"format": target, "strict": strict, "limit": 10_000}
    found: dict[str, Any] = client.get("/tools/export", params=query, timeout=120).raise_for_status().json()
    assert found["report"]["omitted"] == 0
    return found


def schemas(export: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the schema of the arguments of each exported tool by its name."""
    kind = "OBJECT" if export["format"] == "gemini-openapi" else "object"
    empty: dict[str, Any] = {"type": kind, "properties": {}}
    tools = export["tools"]
    if export["format"] == "ai-sdk":
        return {name: tool["inputSchema"] for name, tool in tools.items()}
    if export["format"].startswith("gemini"):
        tools = tools[0]["functionDeclarations"]
    found = {}
    for tool in tools:
        one = tool.get("function") or tool.get("toolSpec") or tool
        schema = one.get("parameters") or one.get("parametersJsonSchema") or one.get("input_schema")
        found[one["name"]] = schema or one.get("inputSchema", {}).get("json", empty)
    return found


@pytest.fixture(scope="module")
def originals(client: httpx2.Client) -> dict[str, dict[str, Any]]:
    """The schema of the arguments of each tool by its canonical name, as an export without changes has it."""
    found = exported(client, "mcp", "auto")
    return {found["aliases"][tool["name"]]["tool"]: tool["inputSchema"] for tool in found["tools"]}


@pytest.mark.parametrize("target", SDKS)
def test_types_of_the_released_sdks_accept_every_tool(
    target: str, client: httpx2.Client, tmp_path: Path
) -> None:
    paths = {strict: tmp_path / f"{strict}.json" for strict in STRICT}
    for strict, path in paths.items():
        path.write_text(json.dumps(exported(client, target, strict)))
    command = [str(interpreter("model-sdks")), str(HERE / "model_types.py"), *map(str, paths.values())]
    assert run_program(command) == {str(path): None for path in paths.values()}


def test_the_ai_sdk_makes_tools_of_every_tool(client: httpx2.Client, tmp_path: Path) -> None:
    paths = {strict: tmp_path / f"{strict}.json" for strict in STRICT}
    for strict, path in paths.items():
        path.write_text(json.dumps(exported(client, "ai-sdk", strict)))
    modules = required(lambda: install_npm(AI_SDK / "package.json", FOLDER / "ai-sdk"))
    # Node.js looks for packages in the folder of the program.
    for name in ("tools.js", "package.json"):
        shutil.copy(AI_SDK / name, tmp_path)
    (tmp_path / "node_modules").symlink_to(modules)
    found = run_program(["node", str(tmp_path / "tools.js"), *map(str, paths.values())])
    assert found == {str(path): None for path in paths.values()}


@pytest.mark.parametrize("target", TARGETS)
def test_every_tool_is_within_the_rules_of_its_dialect(target: Format, client: httpx2.Client) -> None:
    for strict in STRICT:
        found = exported(client, target, strict)
        reports = {report["alias"]: report for report in found["report"]["tools"]}
        for name, schema in schemas(found).items():
            assert broken_rules(dialect(target), name, schema, strict=reports[name]["strict"]) == [], name
        assert not [one["name"] for one in reports.values() if one["grade"] == "unsupported"]


@pytest.mark.parametrize("target", PROVIDERS)
def test_no_provider_rejects_a_schema(target: str, client: httpx2.Client) -> None:
    provider = PROVIDERS[target]
    # That all tools are strict is a member of a request to Cohere.
    strict_subset = OPENAI_STRICT if target == "cohere" else provider.strict
    checked = 0
    for strict in STRICT:
        found = exported(client, target, strict)
        reports = {report["alias"]: report for report in found["report"]["tools"]}
        for name, schema in schemas(found).items():
            assert provider.name.fullmatch(name), name
            subset = strict_subset if reports[name]["strict"] else provider.plain
            assert subset is not None
            assert list(broken(schema, subset)) == [], (name, strict)
            checked += 1
    assert checked > 1_500


def canonical(arguments: Any) -> str:
    """Return arguments as text, so that 1, 1.0 and true differ."""
    return json.dumps(arguments, sort_keys=True)


@pytest.mark.parametrize("target", TARGETS)
def test_calls_of_the_exported_schemas_are_valid_for_the_original(
    target: Format, client: httpx2.Client, originals: dict[str, dict[str, Any]]
) -> None:
    calls = accepted = 0
    unreported = []
    for strict in STRICT:
        found = exported(client, target, strict)
        reports = {report["alias"]: report for report in found["report"]["tools"]}
        for name, schema in schemas(found).items():
            tool = reports[name]["name"]
            validator = ArgumentValidator(originals[tool])
            record = record_of(found["aliases"][name])
            form = json_schema_of(schema) if target == "gemini-openapi" else schema
            for value in values_of(form, name, VALUES):
                calls += 1
                undone = undo(value, record)
                try:
                    validator.check({"body": undone} if record.body else undone)
                    accepted += 1
                except InvalidArguments as error:
                    if all(loss["effect"] == "none" for loss in reports[name]["losses"]):
                        unreported.append((name, strict, value, error.errors))
    print(f"{target}: {accepted:,} of {calls:,} calls of exports are valid for the original")
    assert unreported == []
    assert calls > 1_000
    assert accepted >= calls * 0.999, (accepted, calls)


@pytest.mark.parametrize("target", TARGETS)
def test_valid_calls_can_be_written_for_the_exported_schemas_or_the_report_says_why(
    target: Format, client: httpx2.Client, originals: dict[str, dict[str, Any]]
) -> None:
    found = Counter[str]()
    unreported = []
    for strict in STRICT:
        export = exported(client, target, strict)
        reports = {report["alias"]: report for report in export["report"]["tools"]}
        for name, schema in schemas(export).items():
            report = reports[name]
            record = record_of(export["aliases"][name])
            form = json_schema_of(schema) if target == "gemini-openapi" else schema
            validator = jsonschema_rs.Draft202012Validator(form)
            for value in values_of(originals[report["name"]], f"{name} of the original", VALUES):
                call = as_exported(value, record)
                undone = undo(call, record)
                again = {"body": undone} if record.body else undone
                found["calls"] += 1
                if not validator.is_valid(call):
                    outcome = "cannot be written"
                elif canonical(again) != canonical(value):
                    outcome = "undone to another call"
                else:
                    continue
                found[outcome] += 1
                if report["grade"] != "narrower":
                    unreported.append((name, strict, outcome, value, call, again))
    print(f"{target}: {dict(found)}")
    assert found["calls"] > 1_000
    assert unreported == []
