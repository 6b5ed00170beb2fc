"""Manifests: which are read, which are rejected with which reason, and hostile ones."""

import pytest

from app.core.errors import InvalidDocument, TooLarge
from app.formats.archive import pack_files
from app.formats.toolclad.conditions import holds, parse_condition
from app.formats.toolclad.manifest import MAX_MANIFEST_BYTES, read_manifest
from app.formats.toolclad.placeholders import (
    Reference,
    SecretReference,
    fill,
    parse_pieces,
    write_text,
)
from app.formats.toolclad.sources import is_manifest, is_manifest_source, read_source
from tests.harness.cases import for_each

TOOL = '[tool]\nname = "t"\ndescription = "d"\n'
HTTP = '[http]\nurl = "https://api.example.com/"\n'
OUTPUT = '[output]\nformat = "json"\n[output.schema]\ntype = "object"\n'


def errors(text: str) -> dict[str, str]:
    with pytest.raises(InvalidDocument) as caught:
        read_manifest(text.encode(), {})
    return {one.pointer: one.detail for one in caught.value.errors}


def test_the_smallest_manifest_has_the_defaults_of_the_format() -> None:
    contract = read_manifest((TOOL + HTTP + OUTPUT).encode(), {}).contract
    assert (contract.timeout_seconds, contract.risk_tier, contract.human_approval) == (60, "low", False)
    assert (contract.http.method, contract.evidence.hash) == ("GET", "sha256")


def test_policy_and_evidence_are_read() -> None:
    text = (
        TOOL
        + '[tool.cedar]\nresource = "R"\naction = "a"\n[tool.evidence]\noutput_dir = "{evidence_dir}/x"\n'
    )
    contract = read_manifest((text + HTTP + OUTPUT).encode(), {}).contract
    assert (contract.cedar.resource, contract.cedar.action) == ("R", "a")
    assert contract.evidence.output_dir == "{evidence_dir}/x"


@for_each(
    ("text", "at", "reason"),
    [
        (TOOL + OUTPUT, "", "backend"),
        (TOOL.replace('"d"', '"d"\ndispatch = "callback"'), "/tool/dispatch", "callback"),
        (TOOL + HTTP, "/output", "output"),
        (TOOL + HTTP + '[output]\nformat = "json"\n', "/output/schema", "mandatory"),
        (TOOL + '[session]\nstartup_command = "x"\n' + OUTPUT, "/session", "interactive"),
        (TOOL + '[browser]\nengine = "cdp"\n' + OUTPUT, "/browser", "interactive"),
        (TOOL.replace('"d"', '"d"\nmode = "session"') + HTTP + OUTPUT, "/tool/mode", "interactive"),
        (TOOL + HTTP + OUTPUT + '[mcp]\nserver = "s"\ntool = "t"\n', "/mcp", "one backend"),
        (TOOL + HTTP + OUTPUT + "[surprise]\nx = 1\n", "/surprise", "not know"),
        (TOOL.replace("[tool]\n", "[tool]\nsudo = true\n") + HTTP + OUTPUT, "/tool/sudo", "not know"),
        (TOOL.replace('"d"', '"d"\ntimeout_seconds = 0') + HTTP + OUTPUT, "/tool/timeout_seconds", "greater"),
        (
            TOOL.replace('"d"', '"d"\nhuman_approval = "yes"') + HTTP + OUTPUT,
            "/tool/human_approval",
            "boolean",
        ),
        (TOOL.replace('"d"', '"d"\nrisk_tier = "extreme"') + HTTP + OUTPUT, "/tool/risk_tier", "low"),
        ('[tool]\nname = "t"\n' + HTTP + OUTPUT, "/tool/description", "required"),
        (HTTP + OUTPUT, "/tool", "required"),
        (TOOL + HTTP.replace("api.example.com", "{h}.example.com") + OUTPUT, "/http/url", "host"),
        (TOOL + HTTP.replace("https://api", "https://{_secret:h}.api") + OUTPUT, "/http/url", "host"),
        (TOOL + HTTP.replace(".com/", ".com/{x}") + OUTPUT, "/http/url", "{x}"),
        (TOOL + HTTP.replace(".com/", ".com/{x}") + "[args.x]\n" + OUTPUT, "/args/x", "path"),
        (
            TOOL + HTTP + OUTPUT.replace("format", 'parser = "builtin:yaml"\nformat'),
            "/output/parser",
            "built-in",
        ),
        (TOOL + HTTP + OUTPUT.replace("format", 'parser = "x.py"\nformat'), "/output/parser", "[command]"),
        (TOOL + HTTP + OUTPUT + '[args.f]\ntype = "credential_file"\n', "/args/f/type", "[command]"),
        (
            TOOL + '[mcp]\nserver = "s"\ntool = "t"\nfield_map = {q = "x"}\n' + OUTPUT,
            "/mcp/field_map/q",
            "no such",
        ),
        (TOOL + HTTP + OUTPUT + "[args._x]\n", "/args/_x/[key]", "match"),
    ],
)
def test_what_a_call_could_not_honour_is_rejected(text, at, reason) -> None:
    found = errors(text)
    assert at in found, found
    assert reason in found[at]


@for_each(
    ("text", "reason"),
    [
        ("[tool]\nname = 'x", "end of document"),
        ("x = " + "[" * 5000 + "]" * 5000, ""),
        ("x = " + "9" * 10_000, ""),
        ("a." * 200 + "b = 1\n", "levels"),
        ("x" * (MAX_MANIFEST_BYTES + 1), "bytes"),
        ("[tool]\nname = '\udc80'", "UTF-8"),
    ],
)
def test_hostile_toml_is_rejected_without_its_text(text, reason) -> None:
    with pytest.raises(InvalidDocument) as caught:
        read_manifest(text.encode("utf-8", "surrogateescape"), {})
    assert reason in caught.value.errors[0].detail
    assert "xxxx" not in str(caught.value.errors)


@for_each(
    ("text", "is_one"),
    [
        (TOOL, True),
        ("\ufeff# A comment: with a colon\n\n  [ tool ]  # here\nname = 'x'", True),
        ('[tool.cedar]\nresource = "x"\n[tool]\n', True),
        ("openapi: 3.1.0\ninfo:\n  description: |\n    Configure:\n\n[tool]\n", False),
        ("openapi: 3.1.0\n", False),
        ('{"tools": []}', False),
        ("[package]\nname = 'x'\n", False),
        ("", False),
    ],
)
def test_a_manifest_is_recognised_by_its_table(text, is_one) -> None:
    assert is_manifest(text.encode()) is is_one


def test_one_bad_manifest_of_an_archive_does_not_reject_the_others() -> None:
    archive = pack_files({
        "tools/good.clad.toml": (TOOL + HTTP + OUTPUT).encode(),
        "tools/bad.clad.toml": b"[tool]\nname = 'x'\n",
        "README.md": b"text",
        "toolclad.toml": b"[types.n]\nbase = 'integer'\n",
    })  # fmt: skip
    assert is_manifest_source(archive)
    found = read_source(archive)
    assert found.files == ("tools/good.clad.toml",)
    assert [(one.file, one.error.errors[0].pointer) for one in found.rejected] == [
        ("tools/bad.clad.toml", "/tool/description")
    ]
    assert found.ignored == ("README.md",)


@pytest.mark.parametrize(
    "files",
    [
        {"../up.clad.toml": b"x"},
        {"/abs.clad.toml": b"x"},
        {"a.clad.toml": b"\x00" * (40 << 20)},
        {"a.clad.toml": b"x", "b.zip": b"PK\x03\x04"},
    ],
)
def test_a_hostile_archive_is_rejected(files) -> None:
    with pytest.raises((InvalidDocument, TooLarge)):
        read_source(pack_files(files))


@for_each(
    ("text", "values", "expected"),
    [
        ("a == 'x'", {"a": "x"}, True),
        ('a != ""', {}, False),
        ("a!='' and b==2", {"a": "1", "b": "2"}, True),
        ("a == 'x and y'", {"a": "x and y"}, True),
        ("a == 'x' and b == 'and'", {"a": "x", "b": "and"}, True),
        ('a == "it\'s"', {"a": "it's"}, True),
        ("a == '='", {"a": "="}, True),
    ],
)
def test_a_condition_compares_texts(text, values, expected) -> None:
    assert holds(parse_condition(text), values) is expected


@for_each(
    "text",
    ["", "a", "a = 'x'", "a === 'x'", "a == ", "a == 'x' or b == 'y'", "(a == 'x')", "a == 'x", "a == 'x' and",
     "a == 'x' b == 'y'", "a.b == 'x'", "a == 'x';import os", "not a == 'x'", "a == x y", "a < 3", "a == 'x'and b == 'y' or"],
)  # fmt: skip
def test_any_other_expression_is_rejected(text) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_condition(text)


def test_values_are_inserted_in_one_pass() -> None:
    pieces = parse_pieces("a{x}b{_secret:y}{{x}}{ x }")
    assert pieces[:4] == ("a", Reference("x"), "b", SecretReference("y"))
    assert fill(pieces, {"x": "{_secret:y}{x}"}, {"y": "{x}"}) == "a{_secret:y}{x}b{x}{{_secret:y}{x}}{ x }"


@for_each(
    ("value", "text"), [(True, "true"), (5.0, "5"), (0.5, "0.5"), (-3, "-3"), ("x", "x"), (1e300, "1e+300")]
)
def test_a_value_has_one_text(value, text) -> None:
    assert write_text(value) == text
