"""The released Python package `toolclad` and the gateway read the same manifests, values and commands.

Where they differ, the case says why: docs/toolclad.md has these reasons as a table, which is compared here.
"""

import json
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from app.core.errors import InvalidArguments, InvalidDocument
from app.formats.json_schema.validator import ArgumentValidator
from app.formats.toolclad.argument_types import (
    ArgumentSection,
    CustomType,
    build_argument_schema,
    resolve_type,
)
from app.formats.toolclad.command import compile_command
from app.formats.toolclad.formats import CHECKERS
from app.formats.toolclad.manifest import read_manifest, read_project
from app.formats.toolclad.outputs import parse_output
from tests.interop.environments import install, required

ROOT = Path(__file__).parents[2]
READER = Path(__file__).with_name("toolclad_reader.py")
EXAMPLES = ROOT / "examples" / "toolclad" / "tools"
PROJECT = '[types.share]\nbase = "number"\nmin_float = 0.0\nmax_float = 1.0\n'
HEAD = '[tool]\nname = "t"\ndescription = "d"\n'
OUTPUT = '[output]\nformat = "json"\n[output.schema]\n'

EMPTY = "the empty text"
STRICT = "texts of numbers and booleans"
URL_PARTS = "a URL whose host or port is none"
PORTS = "a range of a port"
MSF = "`set KEY VALUE`"
BACKSLASH = "a path with a backslash"
ZONE = "an IPv6 zone"
DURATIONS = "a duration with a sign, a blank or an underscore"
UNICODE = "digits that are not ASCII"

# Type, constraints, text, and why the gateway decides otherwise than the package; None where it does not.
VALUES: list[tuple[str, dict[str, Any], str, str | None]] = [
    ("string", {}, "a b", None), ("string", {}, "a;b", None), ("string", {}, "a\nb", None), ("string", {}, "", EMPTY),
    ("string", {"pattern": "[a-z]+$"}, "abc", None), ("string", {"pattern": "[a-z]+$"}, "1abc", None),
    ("string", {"pattern": "a|b"}, "bc", None), ("string", {"pattern": "a|b"}, "cb", None),
    ("integer", {"min": 2, "max": 9}, "2", None), ("integer", {"min": 2, "max": 9}, "10", None),
    ("integer", {}, "x", None), ("integer", {}, "1.5", None), ("integer", {}, " 7 ", STRICT), ("integer", {}, "1_0", STRICT),
    ("number", {"min_float": 0.5}, "0.5", None), ("number", {"min_float": 0.5}, "0.4", None),
    ("number", {}, "nan", None), ("number", {}, "inf", None),
    ("port", {}, "65535", None), ("port", {}, "65536", None), ("port", {}, "0", None), ("port", {"max": 100}, "443", PORTS),
    ("boolean", {}, "true", None), ("boolean", {}, "TRUE", STRICT), ("boolean", {}, "1", None),
    ("enum", {"allowed": ["a"]}, "a", None), ("enum", {"allowed": ["a"]}, "A", None),
    ("scope_target", {}, "db.example.com", None), ("scope_target", {}, "10.0.0.0/8", None), ("scope_target", {}, "::1", None),
    ("scope_target", {}, "*.x", None), ("scope_target", {}, "xn--a.b", None), ("scope_target", {}, "a/../b", None),
    ("scope_target", {}, "ä.b", None), ("scope_target", {}, " a", None), ("scope_target", {}, "a_b", None),
    ("scope_target", {}, "", None), ("scope_target", {}, "fe80::1%eth0", ZONE),
    ("url", {}, "https://h/x", None), ("url", {}, "h/x", None), ("url", {}, "https://h/?a&b", None),
    ("url", {"schemes": ["https"]}, "http://h", None), ("url", {}, "https://h:port/", URL_PARTS),
    ("path", {}, "a/b", None), ("path", {}, "../b", None), ("path", {}, "a/../b", None), ("path", {}, "/a", None),
    ("path", {}, "c:x", None), ("path", {}, "a\\..\\b", None), ("path", {}, "\\a", BACKSLASH), ("path", {}, "", EMPTY),
    ("ip_address", {}, "1.2.3.4", None), ("ip_address", {}, "::", None), ("ip_address", {}, "1.2.3", None),
    ("cidr", {}, "10.1.2.3/8", None), ("cidr", {}, "10.0.0.0", None), ("cidr", {}, "10.0.0.0/33", None),
    ("msf_options", {}, "A b; C d", None), ("msf_options", {}, "a b", None), ("msf_options", {}, "A b|c", None),
    ("msf_options", {}, "set A b", MSF),
    ("duration", {}, "1h30m", None), ("duration", {}, "30", None), ("duration", {}, "5x", None), ("duration", {}, "-5", DURATIONS),
    ("regex_match", {"pattern": "^v[0-9]+$"}, "v1", None), ("regex_match", {"pattern": "^v[0-9]+$"}, "1", None),
    ("share", {}, "0.5", None), ("share", {}, "1.5", None), ("duration", {}, "٣m", UNICODE),
]  # fmt: skip

SPLIT = "an argument with blanks in a template"
FRAGMENTS = "flags of several words in `exec`"
NOTHING = "flags without a value in `exec`"
ARGUMENTS = '[args.a]\n[args.p]\ntype = "enum"\nallowed = ["x", "y"]\ndefault = "x"\n'
FLAGS = '[command.mappings.p]\nx = "-T4 -F"\ny = ""\n[command.conditionals.c]\nwhen = "a != \'\'"\ntemplate = "-a {a}"\n'
COMMANDS: list[tuple[str, dict[str, str], str | None]] = [
    ('exec = ["echo", "{a}", "x{p}"]', {"a": "b c"}, None),
    ("template = \"echo {a} 'x {p}'\"", {"a": "b"}, None),
    ('template = "echo {a} {p}"', {"a": "b c"}, SPLIT),
    (f'template = "echo {{_p_flags}} {{_c}} end"\n{FLAGS}', {"a": "b"}, None),
    (f'template = "echo {{_p_flags}} {{_c}} end"\n{FLAGS}', {"p": "y"}, None),
    (f'exec = ["echo", "{{_p_flags}}"]\n{FLAGS}', {}, FRAGMENTS),
    (f'exec = ["echo", "{{_c}}"]\n{FLAGS}', {}, NOTHING),
    ('exec = ["echo", "{n}"]\n[command.defaults]\nn = 5\n', {}, None),
]

CALLBACK = 'a manifest with `dispatch = "callback"` and no backend'
INTERACTIVE = "`[session]` and `[browser]`"
UNKNOWN = "a member that is not known"
NO_SCHEMA = "a manifest without `[output.schema]`"
MANIFESTS: dict[str, tuple[str, str | None]] = {
    "http": (HEAD + '[http]\nurl = "https://h/"\n' + OUTPUT, None),
    "none": (HEAD + OUTPUT, None),
    "no-output": (HEAD + '[http]\nurl = "https://h/"\n', None),
    "dispatch": (HEAD + 'dispatch = "other"\n[http]\nurl = "https://h/"\n' + OUTPUT, None),
    "no-tool": (OUTPUT, None),
    "callback": (HEAD + 'dispatch = "callback"\n', CALLBACK),
    "session": (HEAD + '[session]\nstartup_command = "sh"\n' + OUTPUT, INTERACTIVE),
    "unknown": (HEAD + 'sudo = true\n[http]\nurl = "https://h/"\n' + OUTPUT, UNKNOWN),
    "no-schema": (HEAD + '[http]\nurl = "https://h/"\n[output]\nformat = "json"\n', NO_SCHEMA),
}
LISTS = "results that are a list"
OUTPUTS: list[tuple[str, str, str | None]] = [
    ("text", "a b", None), ("json", '{"a": 1}', None), ("jsonl", "1", LISTS), ("csv", "a,b", LISTS),
    ("xml", "<a b='1'>t<c/></a>", None),
]  # fmt: skip


@pytest.fixture(scope="module")
def released() -> dict[str, Any]:
    """What the package says of everything here."""
    manifests = {path.name: path.read_text() for path in EXAMPLES.glob("*.clad.toml")}
    manifests |= {f"m-{name}.clad.toml": text for name, (text, _) in MANIFESTS.items()}
    manifests |= {f"c-{n}.clad.toml": command(text) for n, (text, _, _) in enumerate(COMMANDS)}
    manifests |= {f"o-{n}.clad.toml": printed(kind, text) for n, (kind, text, _) in enumerate(OUTPUTS)}
    given = {
        "manifests": manifests,
        "project": PROJECT,
        "values": [(kind, constraints, text) for kind, constraints, text, _ in VALUES],
        "calls": [(f"c-{n}.clad.toml", arguments) for n, (_, arguments, _) in enumerate(COMMANDS)],
        "executed": [(f"o-{n}.clad.toml", {}) for n in range(len(OUTPUTS))],
    }
    python = required(lambda: install("toolclad"))
    done = subprocess.run(
        [str(python), str(READER)], input=json.dumps(given), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def command(text: str) -> str:
    return f"{HEAD}{ARGUMENTS}[command]\n{text}\n{OUTPUT}"


def printed(kind: str, text: str) -> str:
    return (
        f"{HEAD}[command]\nexec = ['printf', '''{text}''']\n[output]\nformat = \"{kind}\"\n[output.schema]\n"
    )


def is_read(text: str) -> bool:
    try:
        read_manifest(text.encode(), read_project(PROJECT.encode()))
    except InvalidDocument:
        return False
    return True


def is_valid(kind: str, constraints: dict[str, Any], text: str) -> bool:
    """Return whether a client may give this value: a text is what JSON has for the type."""
    types: dict[str, CustomType] = read_project(PROJECT.encode())
    section = resolve_type(ArgumentSection(type=kind, **constraints), types, location="")
    schema = build_argument_schema(section, location="")
    value: Any = text
    if schema["type"] in ("integer", "number", "boolean"):
        try:
            value = json.loads(text, parse_constant=lambda _: "none") if text == text.strip() else text
        except json.JSONDecodeError:
            value = text
    try:
        ArgumentValidator({"properties": {"a": schema}}, formats=CHECKERS).check({"a": value})
    except InvalidArguments:
        return False
    return True


def test_the_examples_are_read_by_both(released: dict[str, Any]) -> None:
    types = (EXAMPLES / "toolclad.toml").read_bytes()
    for path in EXAMPLES.glob("*.clad.toml"):
        assert released["read"][path.name] is None
        if "session" not in tomllib.loads(path.read_text()):
            read_manifest(path.read_bytes(), read_project(types))


def test_manifests_are_read_or_rejected_alike(released: dict[str, Any]) -> None:
    for name, (text, difference) in MANIFESTS.items():
        by_package = released["read"][f"m-{name}.clad.toml"] is None
        assert (is_read(text) is by_package) is (difference is None), name


def test_values_are_accepted_or_rejected_alike(released: dict[str, Any]) -> None:
    for (kind, constraints, text, difference), (by_package, _) in zip(
        VALUES, released["values"], strict=True
    ):
        is_same = is_valid(kind, constraints, text) is by_package
        assert is_same is (difference is None), (kind, constraints, text)


def test_commands_have_the_same_words(released: dict[str, Any]) -> None:
    for (text, arguments, difference), words in zip(COMMANDS, released["words"], strict=True):
        contract = read_manifest(command(text).encode(), {}).contract
        own = ["echo", *compile_command(contract, location="").arguments(arguments, {})]
        assert (own == words) is (difference is None), (text, own, words)


def test_output_has_the_same_results(released: dict[str, Any]) -> None:
    for (kind, text, difference), envelope in zip(OUTPUTS, released["envelopes"], strict=True):
        assert envelope["status"] == "success", envelope
        own = parse_output(text.encode(), f"builtin:{kind}")
        assert (own == envelope["results"]) is (difference is None), (kind, own, envelope["results"])
        if difference == LISTS:
            assert envelope["results"] == {"parsed_output": own}
        # It hashes output only where a manifest captures it.
        assert envelope["output_hash"] == ""


def test_the_page_says_why_they_differ() -> None:
    page = (ROOT / "docs" / "toolclad.md").read_text()
    reasons = {one[-1] for cases in (VALUES, COMMANDS, OUTPUTS) for one in cases} | {
        difference for _, difference in MANIFESTS.values()
    }
    missing = [reason for reason in reasons if reason is not None and f"| {reason}" not in page]
    assert not missing
