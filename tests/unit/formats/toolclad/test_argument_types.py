"""Each type of an argument: what its JSON Schema accepts and rejects, and what the schema says."""

import pytest

from app.core.errors import InvalidArguments, InvalidDocument
from app.formats.json_schema.normalize import normalize_inputs
from app.formats.json_schema.validator import ArgumentValidator
from app.formats.toolclad.formats import CHECKERS
from app.formats.toolclad.manifest import read_manifest, read_project
from tests.harness.cases import for_each

MANIFEST = """
[tool]
name = "t"
description = "d"

[args.a]
required = true
{argument}

[command]
exec = ["echo", "{{a}}"]

[output]
format = "text"
[output.schema]
"""
PROJECT = b"""
[project]
name = "ignored"

[types.service]
base = "enum"
allowed = ["ssh", "http"]

[types.share]
base = "number"
min_float = 0.0
max_float = 1.0

[types.ticket]
base = "regex_match"
pattern = "[A-Z]+-[0-9]+$"
"""
LONG_HOST = ".".join(["a" * 60] * 4)


def schema(argument: str) -> dict:
    manifest = read_manifest(MANIFEST.format(argument=argument).encode(), read_project(PROJECT))
    # As it is stored.
    return normalize_inputs(manifest.inputs)[0]


def accepts(argument: str, value: object) -> bool:
    try:
        ArgumentValidator(schema(argument), formats=CHECKERS).check({"a": value})
    except InvalidArguments:
        return False
    return True


CASES = {
    'type = "string"': (["a", "a b", "ü", "-x", "'"], ["", *(f"a{c}b" for c in ";|&$`(){}[]<>!\n\r"), 1, None]),
    'type = "string"\npattern = "[a-z]+$"': (["abc"], ["abc1", "1abc", "ABC"]),
    'type = "string"\npattern = "a|b"': (["a", "bc"], ["xa"]),
    'type = "string"\ndefault = ""': (["", "a"], ["a;"]),
    'type = "integer"\nmin = 2\nmax = 9': ([2, 9, 5.0], [1, 10, 2.5, "5", True]),
    'type = "number"\nmin_float = 0.5\nmax_float = 2': ([0.5, 1, 2], [0.4, 2.1, "1"]),
    'type = "number"\nmin = 1\nmax = 2': ([1.5], [0.9, 2.5]),
    'type = "port"': ([1, 65535], [0, 65536, -1, "80", 1.5]),
    'type = "boolean"': ([True, False], ["true", 1, 0, None]),
    'type = "enum"\nallowed = ["a", "b"]': (["a", "b"], ["A", "c", "", 1]),
    'type = "scope_target"': (
        ["10.0.0.1", "::1", "2001:db8::8", "10.0.0.0/8", "2001:db8::/32", "db.example.com", "a-b.example.", "localhost"],
        [
            "", "*.example.com", "a?b", "../etc", "a/b", "a\\b", "exämple.com", "xn--exmple-cua.com", "a.XN--b.com",
            " a", "a ", "-a.com", "a-.com", "a_b", "a;b", "http://a", LONG_HOST + ".example.com.and.more", "10.0.0.0/33",
            "a..b", "1.2.3.4/", "a\n",
        ],
    ),
    'type = "url"': (
        ["https://a.example/x?y=1#z", "ftp://h", "http://[::1]/"][:2],
        ["a.example", "https://", "https:///x", "//h", "https://h/;x", "https://h/?a=1&b=2", "https://h/ x"[:10] + "<", ""],
    ),
    'type = "url"\nschemes = ["https"]': (["https://h/x"], ["http://h/x", "HTTP://h", "javascript://h"]),
    'type = "url"\nscope_check = true': (
        ["https://h.example/x", "https://10.0.0.1:8443/"],
        ["https://xn--exmple-cua.com/", "https://user:pw@h/", "https://*.h/", "https://a_b/"],
    ),
    'type = "path"': (
        ["a", "a/b.txt", "a..b/c", "..a", "a/..b"],
        ["", "/etc", "..", "../a", "a/../b", "a/..", "a\\..\\b", "..\\a", "C:\\x", "c:x", "\\x", "a;b", "a\nb"],
    ),
    'type = "ip_address"': (["1.2.3.4", "::", "2001:db8::1", "::ffff:1.2.3.4"], ["1.2.3", "256.1.1.1", "h", "fe80::1%eth0", "::/0", ""]),
    'type = "cidr"': (["10.0.0.0/8", "10.1.2.3/8", "::/0", "2001:db8::/32"], ["10.0.0.0", "10.0.0.0/33", "::/129", "x/8", "10.0.0.0/a", ""]),
    'type = "msf_options"': (
        ["RHOSTS 10.0.0.1", "set RHOSTS 10.0.0.1; set LPORT 4444", "A b;", "A b;;C d", ""],
        ["rhosts x", "A", "A b; c d", "A b|c", "A $x", "set A", "A b\nC d"],
    ),
    'type = "credential_file"': (["keys/id"], ["/etc/passwd", "../id", "a/../../b", "C:/x"]),
    'type = "duration"': (["30", "5m", "2h", "1h30m", "500ms", "1h1m1s1ms"], ["", "5x", "m", "1m1h", "-5", "1.5h", "5 m"]),
    'type = "regex_match"\npattern = "^v[0-9]+$"': (["v1"], ["v", "1v1", "v1;", "v1\n"]),
    'type = "service"': (["ssh"], ["telnet"]),
    'type = "share"': ([0.5], [1.5]),
    'type = "ticket"': (["AB-12"], ["ab-12", "AB-12x"]),
}  # fmt: skip


@for_each(("argument", "value"), [(one, value) for one, (valid, _) in CASES.items() for value in valid])
def test_a_value_of_the_type_is_accepted(argument, value) -> None:
    assert accepts(argument, value)


@for_each(("argument", "value"), [(one, value) for one, (_, invalid) in CASES.items() for value in invalid])
def test_any_other_value_is_rejected(argument, value) -> None:
    assert not accepts(argument, value)


@for_each(
    ("argument", "keywords"),
    [
        ('type = "integer"\nmin = 1\nmax = 5', {"type": "integer", "minimum": 1, "maximum": 5}),
        ('type = "number"\nmin_float = 0.5', {"type": "number", "minimum": 0.5}),
        ('type = "port"', {"minimum": 1, "maximum": 65535}),
        ('type = "enum"\nallowed = ["a"]', {"type": "string", "enum": ["a"]}),
        ('type = "cidr"', {"format": "cidr"}),
        ('type = "scope_target"', {"format": "scope-target", "maxLength": 253}),
        ('type = "url"', {"format": "uri"}),
        ('type = "ip_address"', {"anyOf": [{"format": "ipv4"}, {"format": "ipv6"}]}),
        ('type = "regex_match"\npattern = "x+"', {"allOf": [{"pattern": "^(?:x+)"}]}),
        ('type = "integer"\ndefault = "8"\ndescription = "How many."', {"default": 8, "description": "How many."}),
    ],
)  # fmt: skip
def test_the_schema_has_all_constraints(argument, keywords) -> None:
    found = schema(argument)["properties"]["a"]
    assert {key: found.get(key) for key in keywords} == keywords


def test_arguments_stand_in_the_order_of_their_positions() -> None:
    text = MANIFEST.format(argument="position = 2").replace(
        "[command]", "[args.b]\nposition = 1\nrequired = true\n[args.c]\nposition = 3\n[command]"
    )
    inputs = read_manifest(text.encode(), {}).inputs
    assert list(inputs["properties"]) == ["b", "a", "c"]
    assert inputs["required"] == ["b", "a"]
    assert inputs["additionalProperties"] is False


@for_each(
    ("argument", "at"),
    [
        ('type = "colour"', "/args/a/type"),
        ('type = "enum"', "/args/a/allowed"),
        ('type = "regex_match"', "/args/a/pattern"),
        ('type = "string"\npattern = "(?=a)b"', "/args/a/pattern"),
        ('type = "string"\npattern = "(a)\\\\1"', "/args/a/pattern"),
        ('type = "string"\npattern = "("', "/args/a/pattern"),
        ('type = "integer"\nmin = 9\nmax = 1', "/args/a/min"),
        ('type = "integer"\nclamp = true', "/args/a/clamp"),
        ('type = "string"\nclamp = true', "/args/a/clamp"),
        ('type = "string"\nmin = 1', "/args/a/min"),
        ('type = "port"\ndefault = "high"', "/args/a/default"),
        ('type = "boolean"\ndefault = "yes"', "/args/a/default"),
        ('type = "enum"\nallowed = ["a"]\ndefault = "b"', "/args/a/default"),
        ('type = "string"\nsanitize = ["magic"]', "/args/a/sanitize/0"),
        ('type = "string"\nposition = "1"', "/args/a/position"),
        ('type = "string"\nschemes = ["https"]', "/args/a/schemes"),
        ('type = "string"\nunknown = 1', "/args/a/unknown"),
    ],
)
def test_an_argument_that_cannot_be_honoured_is_rejected_with_its_place(argument, at) -> None:
    with pytest.raises(InvalidDocument) as caught:
        schema(argument)
    assert [one.pointer for one in caught.value.errors] == [at]
