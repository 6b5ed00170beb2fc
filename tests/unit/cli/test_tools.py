"""Searching, showing and calling tools."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.responses import Response, StreamingResponse

from app.cli.errors import InputError
from app.cli.values import read_tool_arguments
from tests.harness.cases import for_each

Run = Callable[..., Any]
CALL = ("POST", "/tools/library.search/call")


def test_arguments_are_text_or_json(run: Run, stub: Any) -> None:
    stub.on(*CALL, {"found": 1})
    items = ("q=sea=shore", "limit:=10", 'filter:={"lang": ["en"]}', "exact:=true", "x:y=1", "empty=")
    ran = run("tools", "call", "library.search", *items)
    assert ran.code == 0
    assert stub.seen[-1].json() == {
        "q": "sea=shore",
        "limit": 10,
        "filter": {"lang": ["en"]},
        "exact": True,
        "x:y": "1",
        "empty": "",
    }


INPUTS = {
    "properties": {
        "count": {"type": "integer"},
        "share": {"type": ["number", "null"]},
        "exact": {"$ref": "#/$defs/flag"},
        "code": {"type": "string"},
        "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        "sizes": {"type": "array", "items": {"type": "integer"}},
        "words": {"anyOf": [{"type": "null"}, {"type": "array", "items": {"type": "string"}}]},
        "filter": {"properties": {"lang": {}}},
        "level": {"enum": [1, 2]},
        "open": {},
    },
    "$defs": {"flag": {"type": "boolean"}, "loop": {"$ref": "#/$defs/loop"}},
}


@for_each(
    ("item", "value"),
    [
        ("count=3", 3),
        ("count=123456789012345678901234567890", 123456789012345678901234567890),
        ("count=three", "three"),
        ("share=0.5", 0.5),
        ("share=null", None),
        ("share=true", "true"),
        ("exact=TRUE", True),
        ("exact=0", False),
        ("exact=perhaps", "perhaps"),
        ("code=007", "007"),
        ("code=true", "true"),
        ("either=7", "7"),
        ("sizes=7", [7]),
        ("sizes=[1, 2]", [1, 2]),
        ("words=sea", ["sea"]),
        ("words=", None),
        ('filter={"lang": ["en"]}', {"lang": ["en"]}),
        ("filter=[1]", "[1]"),
        ("level=2", 2),
        ("open=5", "5"),
        ("unknown=5", "5"),
    ],
)
def test_a_value_is_read_as_the_inputs_of_the_tool_say(run: Run, stub: Any, item: str, value: Any) -> None:
    stub.on("GET", "/tools/library.search", {"name": "library.search", "inputs": INPUTS})
    stub.on(*CALL, {})
    assert run("tools", "call", "library.search", item).code == 0
    assert json.loads(stub.seen[-1].body) == {item.partition("=")[0]: value}


def test_without_texts_the_inputs_are_not_read(run: Run, stub: Any) -> None:
    stub.on(*CALL, {})
    run("tools", "call", "library.search", "limit:=1")
    assert [one.method for one in stub.seen] == ["POST"]


def test_response_body_is_written_unchanged(run: Run, spawn: Run, stub: Any) -> None:
    body = b'{ "a":1,\r\n "b" : "\xc3\xa4" }'
    stub.on(*CALL, Response(body, media_type="application/json"))
    assert spawn("tools", "call", "library.search").out.encode() == body
    assert stub.seen[0].headers["accept"] == "*/*"


def test_json_ends_with_a_newline(run: Run, stub: Any, tmp_path: Path) -> None:
    stub.on(*CALL, Response(b'{"a":1}', media_type="application/json"))
    stub.on("GET", "/calls/c1/envelope", Response(b'{"status":"success"}', media_type="application/json"))
    stub.on("GET", "/export", Response(b'{"providers":[]}', media_type="application/json"))
    for words in (
        ("tools", "call", "library.search", "--json"),
        ("tools", "call", "library.search", "--envelope"),
        ("calls", "envelope", "c1"),
        ("export",),
    ):
        out = run(*words).out
        assert (out.count("\n"), out[-2:]) == (1, "}\n"), words
    run("export", str(tmp_path / "export.json"))
    assert (tmp_path / "export.json").read_bytes() == b'{"providers":[]}\n'


def test_response_is_written_as_it_arrives(run: Run, stub: Any) -> None:
    async def events() -> Any:
        for number in range(3):
            yield f"data: {number}\n\n".encode()

    stub.on(*CALL, StreamingResponse(events(), media_type="text/event-stream"))
    assert run("tools", "call", "library.search").out == "data: 0\n\ndata: 1\n\ndata: 2\n\n"


def _streams(stub: Any, *chunks: bytes) -> None:
    async def pieces() -> Any:
        for chunk in chunks:
            yield chunk

    stub.on(*CALL, StreamingResponse(pieces(), media_type="application/x-ndjson"))


END = b'{"$gateway":{"end":{"events":3,"bytes":9}}}\n'


def test_events_are_printed_as_they_arrive_without_the_end_event(run: Run, stub: Any) -> None:
    _streams(stub, b'{"n":', '1}\n\n"ü\u2028'.encode(), b'"\n[2]\n' + END)
    ran = run("tools", "call", "library.search", "--stream", "--verbose")
    assert (ran.code, ran.out) == (0, '{"n":1}\nü\u2028[2]\n')
    assert "3 events, 9 bytes" in ran.err
    assert stub.seen[0].headers["accept"] == "application/x-ndjson"


def test_events_with_json_option_are_all_json(run: Run, stub: Any) -> None:
    _streams(stub, b'"text"\n', END)
    assert run("tools", "call", "library.search", "--stream", "--json").out == '"text"\n'


def test_stream_that_ends_in_an_error_exits_with_1(run: Run, stub: Any) -> None:
    problem = b'{"type":"urn:utcp-gateway:problem:upstream-timeout","title":"Late","status":504}'
    _streams(stub, b"1\n", b'{"$gateway":{"error":' + problem + b"}}\n")
    ran = run("tools", "call", "library.search", "--stream")
    assert (ran.code, ran.out) == (1, "1\n")
    assert "Late" in ran.err


@pytest.mark.parametrize("broken", [b"1\n", b'1\n{"$gate', b"1\n<html>\n"])
def test_stream_without_a_last_event_exits_with_3(run: Run, stub: Any, broken: bytes) -> None:
    _streams(stub, broken)
    assert run("tools", "call", "library.search", "--stream").code == 3


def test_dry_run_and_stream_exclude_each_other(run: Run, stub: Any) -> None:
    assert run("tools", "call", "library.search", "--stream", "--dry-run").code == 2
    assert not stub.seen


def test_json_option_requests_json(run: Run, stub: Any) -> None:
    stub.on(*CALL, "plain text as a JSON string")
    assert run("tools", "call", "library.search", "--json").json() == "plain text as a JSON string"
    assert stub.seen[0].headers["accept"] == "application/json"


def test_dry_run_shows_the_request(run: Run, stub: Any) -> None:
    stub.on(*CALL, {"method": "GET", "url": "https://api.example.com/search?q=x"})
    ran = run("tools", "call", "library.search", "q=x", "--dry-run")
    assert ran.json()["method"] == "GET"
    assert stub.seen[-1].query == {"dry_run": "true"}


def test_responses_are_decoded_and_validated_by_preference(run: Run, stub: Any) -> None:
    stub.on(*CALL, {"n": "x"}, headers={"X-Response-Violations": 'count=1, at=("#/n")'})
    ran = run("tools", "call", "library.search", "--decode", "--validate")
    assert (ran.code, ran.json()) == (0, {"n": "x"})
    assert 'does not fit the output schema of the tool: count=1, at=("#/n")' in ran.err
    assert stub.seen[0].headers["prefer"] == "decode-response, validate-response"
    stub.on(*CALL, {"n": 1}, headers={"X-Response-Violations": "count=0"})
    assert run("tools", "call", "library.search", "--validate").err == ""
    run("tools", "call", "library.search")
    assert "prefer" not in stub.seen[2].headers


def test_arguments_come_from_a_file_or_standard_input(run: Run, stub: Any, tmp_path: Path) -> None:
    stub.on(*CALL, {})
    (tmp_path / "a.json").write_text('{"q": "file", "limit": 3}')
    run("tools", "call", "library.search", "-a", "@" + str(tmp_path / "a.json"), "q=word")
    run("tools", "call", "library.search", "--arguments", "-", stdin='{"q": "stdin"}')
    run("tools", "call", "library.search", "--arguments", '{"q": "inline"}')
    bodies = [one.json() for one in stub.seen if one.method == "POST"]
    assert bodies == [{"q": "word", "limit": 3}, {"q": "stdin"}, {"q": "inline"}]


@for_each(
    "words",
    [
        ("novalue",),
        ("=x",),
        (":=1",),
        ("a:=not json",),
        ("a=1", "a=2"),
        ("--arguments", "[1]"),
        ("--arguments", "{"),
        ("--arguments", "@absent.json"),
    ],
)
def test_invalid_arguments_are_a_usage_error(run: Run, stub: Any, words: tuple[str, ...]) -> None:
    stub.seen.clear()
    ran = run("tools", "call", "library.search", *words)
    assert ran.code == 2
    assert ran.out == ""
    assert stub.seen == []


def test_a_value_is_never_read_from_a_file(run: Run, stub: Any, tmp_path: Path) -> None:
    """An agent may pass on what somebody else wrote: `@/etc/passwd` is text."""
    (tmp_path / "secret").write_text("canary")
    stub.on(*CALL, {})
    run("tools", "call", "library.search", f"q=@{tmp_path / 'secret'}")
    assert stub.seen[-1].json() == {"q": f"@{tmp_path / 'secret'}"}


@given(
    name=st.text(min_size=1, alphabet=st.characters(exclude_characters="=:", exclude_categories=["Cs"])),
    value=st.text(alphabet=st.characters(exclude_categories=["Cs"])),
)
def test_any_text_survives_as_an_argument(name: str, value: str) -> None:
    assert read_tool_arguments([f"{name}={value}"]) == {name: value}


@given(
    items=st.lists(st.text(), max_size=3),
    base=st.none() | st.text().filter(lambda t: t[:1] not in "@-"),
)
def test_reading_arguments_ends_in_an_object_or_a_sentence(items: list[str], base: str | None) -> None:
    try:
        arguments = read_tool_arguments(items, base=base)
    except InputError as error:
        arguments = {"sentence": str(error)}
    assert isinstance(arguments, dict)
    assert arguments.get("sentence", "x")


def test_search_shows_columns_only_where_they_say_something(run: Run, stub: Any) -> None:
    plain = {"name": "library.search", "score": 1.0, "description": "Find books"}
    health = {"error_rate": 0.12, "p95_ms": 7_300.0, "calls_at_least": 10}
    ill = plain | {"health": health, "missing_credential": True, "effects": {"requires_approval": True}}
    stub.on("GET", "/tools/search", {"items": [plain | {"health": health | {"error_rate": 0, "p95_ms": 5}}]})
    assert "HEALTH" not in run("tools", "search", "book").out
    stub.on("GET", "/tools/search", {"items": [plain, ill]})
    ran = run("tools", "search", "book")
    assert "HEALTH" in ran.out
    assert "12% errors, p95 7 s" in ran.out
    assert "credential, approval" in ran.out


def test_search_says_where_its_matches_are_weak(run: Run, stub: Any) -> None:
    suggestions = {
        "unknown_words": ["vouchr"], "did_you_mean": [{"word": "vouchr", "suggestion": "voucher"}],
        "providers": ["shop"], "words": ["coupon"],
    }  # fmt: skip
    plugins = [{"name": "stripe", "title": "Stripe", "description": "", "url": "/plugins/stripe"}]
    stub.on(
        "GET", "/tools/search", {"items": [], "weak": True, "suggestions": suggestions, "plugins": plugins}
    )
    ran = run("tools", "search", "vouchr")
    for line in (
        "Weak match: no tool has the words vouchr.", "Did you mean: voucher?", "Providers nearby: shop",
        "Other words: coupon", "Plugins that are off: stripe",
    ):  # fmt: skip
        assert line in ran.err


def test_search_takes_several_tasks(run: Run, stub: Any) -> None:
    stub.on("GET", "/tools/search", {"items": []})
    run("tools", "search", "find", "a book", "--also", "lend it", "--also", "send a letter")
    texts = [value for name, value in stub.seen[0].parameters if name == "q"]
    assert texts == ["find a book", "lend it", "send a letter"]


def test_search_shows_scores_and_the_next_step(run: Run, stub: Any) -> None:
    hit = {"name": "library.search", "score": 7.25, "description": "Find books", "inputs": {}}
    stub.on("GET", "/tools/search", {"items": [hit]})
    ran = run("tools", "search", "find", "a book", "--limit", "5", "--tag", "books")
    assert stub.seen[0].query == {"q": "find a book", "limit": "5", "tag": "books"}
    assert "library.search" in ran.out
    assert "7.25" in ran.out
    assert "tools show library.search" in ran.err


def test_show_lists_the_arguments(run: Run, stub: Any) -> None:
    inputs = {
        "type": "object",
        "properties": {
            "q": {"type": "string", "description": "Words"},
            "sort": {"enum": ["asc", "desc"]},
            "ids": {"type": "array", "items": {"type": "integer"}},
            "any": True,
            "kind": {"anyOf": [{"$ref": "#/$defs/Kind"}, {"type": "null"}]},
            "tree": {"$ref": "#/$defs/Tree"},
        },
        "$defs": {"Kind": {"enum": ["a"]}, "Tree": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}},
        "required": ["q", "ids"],
    }
    stub.on(
        "GET",
        "/tools/library.search",
        {"name": "library.search", "inputs": inputs, "tags": [], "keywords": ["find", "look up"]},
    )
    ran = run("tools", "show", "library.search")
    rows = {line.split()[0]: line for line in ran.out.splitlines() if line.strip()}
    assert "string" in rows["q"]
    assert "yes" in rows["q"]
    assert 'one of "asc", "desc"' in rows["sort"]
    assert "list of integer" in rows["ids"]
    assert 'one of "a" or null' in rows["kind"]
    assert "list of Tree" in rows["tree"]
    assert "look up" in rows["keywords"]
    assert "tools call library.search q=... ids=..." in ran.err


def test_verbose_shows_id_status_and_timing(run: Run, stub: Any) -> None:
    headers = {"X-Call-Id": "0199-call", "X-Upstream-Status": "201"}
    stub.on(*CALL, Response(b"{}", headers=headers, media_type="application/json"))
    ran = run("tools", "call", "library.search", "-v")
    assert ran.out == "{}"
    assert "0199-call" in ran.err


@for_each(
    "number", ["0.12345678901234567890123", "1e400", "123456789012345678901234567890", "1.10", "-0.0", "7"]
)
def test_numbers_are_sent_as_they_are_written(number: str) -> None:
    arguments = read_tool_arguments([f"n:={number}"], base=f'{{"deep": [{{"n": {number}}}]}}')
    assert orjson.dumps(arguments).decode() == f'{{"deep":[{{"n":{number}}}],"n":{number}}}'


@pytest.mark.parametrize("text", ["NaN", "[1,", r'"\ud800"', "[" * 100_000])
def test_what_is_no_json_is_no_argument(text: str) -> None:
    with pytest.raises(InputError, match="not JSON"):
        read_tool_arguments([f"n:={text}"])


EXPORT = {
    "format": "anthropic",
    "tools": [{"name": "library_search", "description": "Finds books.", "input_schema": {"type": "object"}}],
    "aliases": {"library_search": {"tool": "library.search"}},
    "report": {
        "tools": [{"name": "library.search", "alias": "library_search", "grade": "looser", "losses": []}],
        "unknown": ["library.gone"],
        "omitted": 3,
        "limits": [],
    },
}


def test_export_writes_what_the_client_takes_and_warns_of_the_rest(run: Run, stub: Any) -> None:
    stub.on("GET", "/tools/export", EXPORT)
    ran = run(
        "tools", "export", "library.search", "library.gone", "--format", "anthropic", "--strict", "true"
    )
    assert ran.code == 0
    assert orjson.loads(ran.out) == EXPORT["tools"]
    assert "library.gone" in ran.err
    assert "looser" in ran.err
    assert "3 further tools" in ran.err
    assert stub.seen[0].query == {"format": "anthropic", "strict": "true", "names": "library.gone"}


def test_export_of_a_toolset_and_as_json(run: Run, stub: Any) -> None:
    stub.on("GET", "/toolsets/support/export", {**EXPORT, "prompt": "You can call these tools."})
    ran = run("tools", "export", "--toolset", "support", "--format", "json-prompt")
    assert ran.out.strip() == "You can call these tools."
    ran = run("-o", "json", "tools", "export", "--toolset", "support")
    assert orjson.loads(ran.out)["aliases"] == EXPORT["aliases"]
