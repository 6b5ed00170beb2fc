"""`openapi check` works without a gateway, and its exit code says whether every operation became a tool."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from app.cli.session import ClientSession
from app.formats.archive import pack_files
from app.openapi import ConvertOptions
from app.openapi.conversion.convert import convert
from tests.harness.cases import for_each

Run = Callable[..., Any]
PETS = """
openapi: 3.0.3
info: {title: Pets, version: "1.2"}
servers: [{url: "https://api.example.com/v1"}]
components:
  securitySchemes:
    key: {type: apiKey, in: header, name: X-Key}
paths:
  /pets/{petId}:
    get:
      operationId: getPet
      summary: One pet
      security: [{key: []}]
      parameters: [{name: petId, in: path, required: true, schema: {type: integer}}]
      responses: {"200": {description: ok}}
  /pets:
    get:
      operationId: "list pets"
      responses: {"200": {description: ok}}
"""
BROKEN = (
    PETS
    + """
  /broken/{id}:
    get:
      parameters: [{name: id, in: path, required: true, schema: {type: string}}, {in: query, required: true}]
      responses: {"200": {description: ok}}
"""
)


@pytest.fixture
def pets(tmp_path: Path) -> str:
    (tmp_path / "pets.yaml").write_text(PETS)
    return str(tmp_path / "pets.yaml")


def test_every_operation_has_an_outcome_and_tokens(run: Run, stub: Any, pets: str) -> None:
    ran = run("openapi", "check", pets)
    assert ran.code == 0
    rows = {line.split()[-3 if "GET" in line else 0]: line for line in ran.out.splitlines() if line.strip()}
    assert "accepted" in next(line for line in rows.values() if "getPet" in line)
    assert "renamed" in next(line for line in rows.values() if "list_pets" in line)
    assert "https://api.example.com" in ran.out
    assert "key (api_key)" in ran.out
    assert "Pets 1.2" in ran.out
    assert stub.seen == []


def test_the_report_is_pure_json_for_programs(run: Run, pets: str) -> None:
    found = run("openapi", "check", pets, "--json").json()
    conversion = convert(PETS.encode(), options=ConvertOptions())
    assert found["report"]["counts"] == conversion.report.counts.to_json()
    assert found["report"] == conversion.report.to_json()
    assert found["tokens"] == sum(one["tokens"] for one in found["report"]["operations"]) > 0


def test_tokens_are_a_quarter_of_the_json_length(pets: str) -> None:
    conversion = convert(PETS.encode(), options=ConvertOptions())
    tool, tokens = conversion.tools[0], conversion.report.operations[0].tokens
    assert tokens is not None
    shown = orjson.dumps({"name": tool.name, "description": tool.description, "inputs": tool.inputs})
    assert len(shown) / 4 <= tokens < len(shown) / 4 + 1


def test_skipped_operation_exits_with_1_and_its_reason(run: Run) -> None:
    ran = run("openapi", "check", "-", stdin=BROKEN)
    assert ran.code == 1
    line = next(line for line in ran.out.splitlines() if "/broken/{id}" in line)
    assert line.startswith("skipped")
    assert len(line.split("/broken/{id}")[1].split()) > 3
    only = run("openapi", "check", "-", "--problems", stdin=BROKEN)
    assert "getPet" not in only.out
    assert "list_pets" in only.out
    assert run("openapi", "check", "-", "--json", stdin=BROKEN).json()["report"]["counts"]["skipped"] == 1


@for_each("content", [b"", b"{", b"[]", b"\xff\xfe\x00", b"a: *b", b'{"openapi": "3.0.0"', b"hello"])
def test_invalid_document_exits_with_1_and_a_sentence(run: Run, content: bytes) -> None:
    ran = run("openapi", "check", "-", stdin=content)
    assert ran.code == 1
    assert ran.err.startswith("Error: ")
    assert ran.out == ""
    assert run("openapi", "check", "-", "--json", stdin=content).json()["title"]


def test_alias_bomb_is_rejected(run: Run) -> None:
    levels = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
    ran = run("openapi", "check", "-", stdin="a0: &a0 x\n" + levels)
    assert ran.code == 1
    assert ran.err.startswith("Error: ")


def test_missing_file_exits_with_2(run: Run) -> None:
    ran = run("openapi", "check", "absent.yaml")
    assert ran.code == 2
    assert "absent.yaml cannot be read" in ran.err


def test_relative_servers_are_resolved_against_the_document_url(run: Run) -> None:
    document = PETS.replace("https://api.example.com/v1", "/v1")
    url = ("--document-url", "https://docs.example.com/openapi.yaml")
    found = run("openapi", "check", "-", "--json", *url, stdin=document).json()
    assert found["origins"] == ["https://docs.example.com"]
    base = ("--base-url", "https://api.example.org")
    found = run("openapi", "check", "-", "--json", *base, stdin=document).json()
    assert found["origins"] == ["https://api.example.org"]


def test_lint_findings_are_counted_or_listed(run: Run, pets: str) -> None:
    summary = run("openapi", "check", pets).out
    assert next(line for line in summary.splitlines() if line.startswith("no-description")).split()[1] == "1"
    each = run("openapi", "check", pets, "--lint").out
    line = next(line for line in each.splitlines() if line.startswith("no-description"))
    assert "list_pets" in line
    assert "Say in one sentence what it does" in line


def test_a_zip_and_an_overlay_are_read(run: Run, tmp_path: Path) -> None:
    (tmp_path / "pets.zip").write_bytes(pack_files({"a.yaml": PETS.encode(), "b.yaml": BROKEN.encode()}))
    overlay = "overlay: 1.0.0\nactions: [{target: \"$.paths['/pets']\", remove: true}]"
    (tmp_path / "overlay.yaml").write_text(overlay)
    archive, options = str(tmp_path / "pets.zip"), ("--overlay", str(tmp_path / "overlay.yaml"), "--json")
    assert run("openapi", "check", archive).code == 1
    found = run("openapi", "check", archive, "--root", "a.yaml", *options).json()
    assert [one["name"] for one in found["report"]["operations"]] == ["getPet"]
    (tmp_path / "overlay.yaml").write_text("overlay: 1.0.0")
    assert run("openapi", "check", archive, "--root", "a.yaml", *options).code == 1


def test_progress_of_a_long_document_is_shown(run: Run) -> None:
    paths = {f"/{n}": {"get": {"responses": {}}} for n in range(120)}
    document = {"openapi": "3.0.0", "info": {}, "servers": [{"url": "https://a.example"}], "paths": paths}
    session = ClientSession(progress_seconds=0.0)
    ran = run("openapi", "check", "-", "--json", stdin=orjson.dumps(document), session=session)
    assert "100 of 120" in ran.err
    assert ran.json()["report"]["counts"]["accepted"] == 120


def test_servers_with_variables_are_shown_and_chosen(run: Run) -> None:
    servers = (
        'servers: [{url: "https://{tenant}.example.com", description: Live}, '
        '{url: "https://{region}.example.com", description: Test, '
        "variables: {region: {default: eu, enum: [eu, us]}}}]"
    )
    document = PETS.replace('servers: [{url: "https://api.example.com/v1"}]', servers)
    shown = run("openapi", "check", "-", stdin=document)
    assert "tenant (no default)" in shown.out
    assert "region=eu (eu, us)" in shown.out
    chosen = run(
        "openapi", "check", "-", "--server", "Live", "--server-variable", "tenant=acme", stdin=document
    )
    assert "https://acme.example.com" in chosen.out
    rejected = run("openapi", "check", "-", "--server", "Liv", "--server-variable", "x=1", stdin=document)
    assert rejected.code == 1
    assert "/options/server" in rejected.err
    assert "`Live`" in rejected.err
    assert "/options/server_variables/x" in rejected.err


def test_fields_without_effect_are_on_one_line(run: Run) -> None:
    ran = run("openapi", "check", "-", stdin=PETS.replace("title: Pets", "title: Pets, license: {name: MIT}"))
    [line] = [line for line in ran.out.splitlines() if line.startswith("no effect")]
    assert line.split(maxsplit=2)[2] == "Info license (1), Response description (2)"
