"""`utcp-gateway search` and `tools search --explain`: synonyms, pinned results, and why matches have their scores."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from starlette.responses import Response

Run = Callable[..., Any]
SET = {
    "id": "s1",
    "terms": ["k8s", "kube"],
    "expand_to": ["kubernetes"],
    "toolset": "desk",
    "version": 2,
    "updated_at": "2026-11-23T00:00:00Z",
}
PIN = {
    "id": "p1",
    "query": "refund a payment",
    "tools": ["shop.refund", "shop.gone"],
    "toolset": None,
    "problems": [{"name": "shop.gone", "detail": "There is no enabled tool of this name."}],
    "version": 1,
    "updated_at": "2026-11-23T00:00:00Z",
}


def test_synonyms_are_listed_as_lines(run: Run, stub: Any) -> None:
    stub.on("GET", "/search/synonyms", {"items": [SET], "next_cursor": None, "total": 1})
    ran = run("search", "synonyms", "list", "--toolset", "desk", "--query", "kube")
    assert ran.code == 0
    assert "k8s, kube => kubernetes" in ran.out
    assert {"toolset": "desk", "q": "kube"}.items() <= stub.seen[-1].query.items()


def test_synonyms_are_added_replaced_and_removed(run: Run, stub: Any) -> None:
    stub.on("POST", "/search/synonyms", SET, status=201)
    stub.on("PUT", "/search/synonyms/s1", SET)
    stub.on("DELETE", "/search/synonyms/s1")
    ran = run("search", "synonyms", "add", "voucher", "gift card")
    assert (ran.code, "k8s, kube => kubernetes" in ran.out) == (0, True)
    assert stub.seen[-1].json() == {"terms": ["voucher", "gift card"], "expand_to": None, "toolset": None}
    changed = run(
        "search", "synonyms", "replace", "s1", "k8s", "--expand-to", "kubernetes", "--toolset", "desk",
        "--if-match", '"1"',
    )  # fmt: skip
    assert changed.code == 0
    assert stub.seen[-1].json() == {"terms": ["k8s"], "expand_to": ["kubernetes"], "toolset": "desk"}
    assert stub.seen[-1].headers["if-match"] == '"1"'
    assert run("search", "synonyms", "remove", "s1", "--if-match", '"2"').code == 0
    assert stub.seen[-1].headers["if-match"] == '"2"'


def test_synonyms_are_exported_and_imported_as_text(run: Run, stub: Any, tmp_path: Path) -> None:
    text = "voucher, coupon\nk8s => kubernetes\n"
    stub.on("GET", "/search/synonyms.txt", Response(text, media_type="text/plain"))
    stub.on("PUT", "/search/synonyms.txt", {"created": 2, "deleted": 1, "unchanged": 0})
    exported = run("search", "synonyms", "export")
    assert (exported.code, exported.out) == (0, text)
    assert run("search", "synonyms", "export", "-o", "json").json() == {"synonyms": text}
    file = tmp_path / "synonyms.txt"
    file.write_text(exported.out)
    imported = run("search", "synonyms", "import", str(file), "--toolset", "desk")
    assert imported.code == 0
    assert "Created 2 sets of synonyms, deleted 1; 0 were there already." in imported.err
    sent = stub.seen[-1]
    assert (sent.body.decode(), sent.headers["content-type"], sent.query) == (
        text, "text/plain", {"toolset": "desk"},
    )  # fmt: skip


def test_pins_are_listed_and_shown_with_their_problems(run: Run, stub: Any) -> None:
    stub.on("GET", "/search/pins", {"items": [PIN], "next_cursor": None, "total": 1})
    stub.on("GET", "/search/pins/p1", PIN)
    listed = run("search", "pins", "list")
    assert "refund a payment" in listed.out
    shown = run("search", "pins", "show", "p1")
    assert "shop.refund, shop.gone" in shown.out
    assert "shop.gone: There is no enabled tool of this name." in shown.err


def test_pins_are_added_replaced_and_removed(run: Run, stub: Any) -> None:
    stub.on("POST", "/search/pins", PIN, status=201)
    stub.on("PUT", "/search/pins/p1", PIN)
    stub.on("DELETE", "/search/pins/p1")
    body = {"query": "refund", "tools": ["a.b", "c.d"], "toolset": None}
    assert run("search", "pins", "add", "refund", "--tool", "a.b", "--tool", "c.d").code == 0
    assert stub.seen[-1].json() == body
    assert run("search", "pins", "add", "refund").code == 2
    changed = run("search", "pins", "replace", "p1", "refund", "--tool", "a.b", "--toolset", "desk")
    assert changed.code == 0
    assert stub.seen[-1].json() == {"query": "refund", "tools": ["a.b"], "toolset": "desk"}
    assert run("search", "pins", "remove", "p1", "-o", "json").json() == {"removed": "p1"}


def test_exported_pins_are_what_import_reads(run: Run, stub: Any, tmp_path: Path) -> None:
    stub.on("GET", "/search/pins", {"items": [PIN], "next_cursor": None})
    stub.on("PUT", "/search/pins/p1", PIN)
    stub.on("POST", "/search/pins", PIN, status=201)
    exported = run("search", "pins", "export")
    members = {name: PIN[name] for name in ("query", "tools", "toolset")}
    assert exported.json() == {"pins": [members]}
    file = tmp_path / "pins.json"
    file.write_text(exported.out)
    assert "1 were there already" in run("search", "pins", "import", str(file)).err
    assert {one.method for one in stub.seen} == {"GET"}
    other = {**members, "tools": ["a.b"]}
    file.write_bytes(orjson.dumps({"pins": [other, {**other, "query": "new"}]}))
    assert run("search", "pins", "import", str(file)).code == 0
    assert [(one.method, one.json()["query"]) for one in stub.seen[-2:]] == [
        ("PUT", "refund a payment"),
        ("POST", "new"),
    ]


@pytest.mark.parametrize("content", ["{}", '{"pins": [1]}', "[]"])
def test_other_files_are_no_pins(run: Run, stub: Any, tmp_path: Path, content: str) -> None:
    file = tmp_path / "pins.json"
    file.write_text(content)
    assert run("search", "pins", "import", str(file)).code == 2
    assert stub.seen == []


def hit(name: str, **members: Any) -> dict[str, Any]:
    explanation = {
        "words": [
            {"word": "coupon", "field": "head", "score": 2.5, "synonym_of": "voucher"},
            {"word": "issue", "field": "body", "score": 0.5, "synonym_of": None},
        ],
        "words_score": 3.0, "words_share": 1.0, "cosine": None, "vector_share": 0.0, "prior": 0.5,
        "prior_share": 0.15, "exact": False, "pinned": False,
    }  # fmt: skip
    return {"name": name, "description": "", "score": 1.15, "explanation": explanation | members}


def test_explained_search_is_a_table(run: Run, stub: Any) -> None:
    query = {
        "q": "voucher zebra", "words": ["voucher", "zebra"], "unknown_words": ["zebra"],
        "synonyms": {"voucher": ["coupon", "gift card"]}, "coverage": 0.5,
    }  # fmt: skip
    items = [hit("a.b", pinned=True, exact=True), hit("c.d", cosine=0.4, vector_share=1.0)]
    items.append({"name": "e.f", "description": "", "score": 0.0, "explanation": None})
    found = {"items": items, "ranking": "words", "explanation": {"queries": [query]}}
    stub.on("GET", "/tools/search", found)
    ran = run("tools", "search", "voucher", "zebra", "--explain")
    assert ran.code == 0
    assert stub.seen[-1].query["explain"] == "true"
    lines = [" ".join(line.split()) for line in ran.out.splitlines()]
    assert lines[0] == "NAME SCORE WORDS VECTOR USE WHY"
    assert lines[1].startswith("a.b 1.15 1.00 0.15 pinned; its name; coupon 2.50 (head, for voucher)")
    assert lines[2].startswith("c.d 1.15 1.00 1.00 0.15 coupon 2.50")
    assert lines[3].startswith("e.f 0.00")
    for line in ("Words: voucher zebra", "In no tool: zebra", "Synonyms of voucher: coupon, gift card"):
        assert line in ran.err
    assert "Ranking: words" in ran.err


def test_search_of_a_toolset(run: Run, stub: Any) -> None:
    item = {"name": "find_books", "description": "Search the catalogue."}
    stub.on("GET", "/toolsets/desk/search", {"items": [item]})
    ran = run("tools", "search", "books", "--toolset", "desk")
    assert (ran.code, "find_books" in ran.out, ran.err) == (0, True, "")
    assert "explain" not in stub.seen[-1].query
