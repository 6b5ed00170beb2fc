"""Every tool, exported in each format, is accepted by the types of the released SDKs and within the rules of the dialect and the
subset of its provider; calls of it are valid for the original, and valid calls of the original can be written for it.

The tools are those of `filled_registry`. Each has 3 calls, or EXPORT_VALUES; the figures are printed with `-rP`.
"""

import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import jsonschema_rs
import pytest

from app.core.errors import InvalidArguments
from app.formats.dialects.aliases import undo
from app.formats.dialects.dialects import FORMATS, Format, Strict, load_dialect
from app.formats.json_schema.validator import ArgumentValidator
from tests.harness.dialect_rules import broken_rules
from tests.harness.exported_calls import as_exported, record_of
from tests.harness.json_form import json_schema_of
from tests.harness.schema_values import values_of
from tests.interop.clients import ask_program, place_program, run_program
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


def canonical(value: Any) -> str:
    """Return a value as text, so that 1, 1.0 and true differ."""
    return json.dumps(value, sort_keys=True)


@dataclass(frozen=True)
class Exports:
    """The exports in one format, by their parameter `strict`."""

    target: Format
    by_strict: dict[Strict, dict[str, Any]]

    def write(self, folder: Path) -> list[str]:
        """Write each of them as a file, and return the paths."""
        paths = {folder / f"{strict}.json": export for strict, export in self.by_strict.items()}
        for path, export in paths.items():
            path.write_text(json.dumps(export))
        return list(map(str, paths))

    def tools(self) -> Iterator[tuple[dict[str, Any], dict[str, Any], Any]]:
        """Yield the report, the alias and the schema of each tool, once where several exports have the same of it."""
        seen: set[str] = set()
        for export in self.by_strict.values():
            reports = {report["alias"]: report for report in export["report"]["tools"]}
            for name, schema in schemas(export).items():
                found = (reports[name], export["aliases"][name], schema)
                if (text := canonical(found)) not in seen:
                    seen.add(text)
                    yield found


@pytest.fixture(scope="module")
def exports(request: pytest.FixtureRequest, client: httpx2.Client) -> Exports:
    """The exports in the format that is the parameter."""
    return Exports(request.param, {strict: exported(client, request.param, strict) for strict in STRICT})


@pytest.fixture(scope="module")
def originals(client: httpx2.Client) -> dict[str, dict[str, Any]]:
    """The whole schema of the arguments of each tool by its canonical name."""
    body = {"name": "whole schemas", "scopes": ["tools:read"], "schemas": "full"}
    key = client.post("/keys", json=body).raise_for_status().json()["key"]
    headers = {"Authorization": f"Bearer {key}"}
    with httpx2.Client(base_url=client.base_url, headers=headers, trust_env=False) as reader:
        found = exported(reader, "mcp", "auto")
    return {found["aliases"][tool["name"]]["tool"]: tool["inputSchema"] for tool in found["tools"]}


@pytest.mark.parametrize("exports", SDKS, indirect=True)
def test_types_of_the_released_sdks_accept_every_tool(exports: Exports, tmp_path: Path) -> None:
    paths = exports.write(tmp_path)
    program = [str(interpreter("model-sdks")), str(HERE / "model_types.py")]
    assert ask_program(program, *paths) == dict.fromkeys(paths)


@pytest.mark.parametrize("exports", ["ai-sdk"], indirect=True)
def test_the_ai_sdk_makes_tools_of_every_tool(exports: Exports, tmp_path: Path) -> None:
    paths = exports.write(tmp_path)
    modules = required(lambda: install_npm(AI_SDK / "package.json", FOLDER / "ai-sdk"))
    found = run_program(["node", str(place_program(AI_SDK / "tools.js", modules.parent)), *paths])
    assert found == dict.fromkeys(paths)


@pytest.mark.parametrize("exports", TARGETS, indirect=True)
def test_every_tool_is_within_the_rules_of_its_dialect(exports: Exports) -> None:
    rules = load_dialect(exports.target)
    for report, _, schema in exports.tools():
        alias = report["alias"]
        assert broken_rules(rules, alias, schema, strict=report["strict"]) == [], alias
        assert report["grade"] != "unsupported", alias


@pytest.mark.parametrize("exports", PROVIDERS, indirect=True)
def test_no_provider_rejects_a_schema(exports: Exports) -> None:
    provider = PROVIDERS[exports.target]
    # That all tools are strict is a member of a request to Cohere.
    strict_subset = OPENAI_STRICT if exports.target == "cohere" else provider.strict
    checked = 0
    for report, _, schema in exports.tools():
        assert provider.name.fullmatch(report["alias"]), report["alias"]
        subset = strict_subset if report["strict"] else provider.plain
        assert subset is not None
        assert list(broken(schema, subset)) == [], (report["alias"], report["strict"])
        checked += 1
    assert checked > 500


@pytest.mark.parametrize("exports", TARGETS, indirect=True)
def test_calls_of_the_exported_schemas_are_valid_for_the_original(
    exports: Exports, originals: dict[str, dict[str, Any]]
) -> None:
    calls = accepted = 0
    unreported = []
    for report, alias, schema in exports.tools():
        validator = ArgumentValidator(originals[report["name"]])
        record = record_of(alias)
        form = json_schema_of(schema) if exports.target == "gemini-openapi" else schema
        for value in values_of(form, report["alias"], VALUES):
            calls += 1
            undone = undo(value, record)
            try:
                validator.check({"body": undone} if record.body else undone)
                accepted += 1
            except InvalidArguments as error:
                if all(loss["effect"] == "none" for loss in report["losses"]):
                    unreported.append((report["alias"], report["strict"], value, error.errors))
    print(f"{exports.target}: {accepted:,} of {calls:,} calls of exports are valid for the original")
    assert unreported == []
    assert calls > 1_000
    assert accepted >= calls * 0.999, (accepted, calls)


@pytest.mark.parametrize("exports", TARGETS, indirect=True)
def test_valid_calls_can_be_written_for_the_exported_schemas_or_the_report_says_why(
    exports: Exports, originals: dict[str, dict[str, Any]]
) -> None:
    found = Counter[str]()
    unreported = []
    for report, alias, schema in exports.tools():
        record = record_of(alias)
        form = json_schema_of(schema) if exports.target == "gemini-openapi" else schema
        validator = jsonschema_rs.Draft202012Validator(form)
        for value in values_of(originals[report["name"]], f"{report['alias']} of the original", VALUES):
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
                unreported.append((report["alias"], report["strict"], outcome, value, call, again))
    print(f"{exports.target}: {dict(found)}")
    assert found["calls"] > 1_000
    assert unreported == []
