"""Registering, importing, refreshing and moving providers."""

from collections.abc import Callable
from email import message_from_bytes
from pathlib import Path
from typing import Any

import orjson
import pytest
from starlette.responses import Response

from app.cli.session import ClientSession
from tests.harness.cases import for_each
from tests.unit.cli.test_terminal import on_terminal

Run = Callable[..., Any]
DIFFERENCE = {"added": ["GET /a"], "changed": [], "unchanged": ["GET /b"], "removed": []}


def report(*outcomes: str) -> dict[str, Any]:
    operations = [
        {
            "source_key": f"GET /{number}",
            "name": f"t{number}",
            "outcome": outcome,
            "pointer": "",
            "notes": [],
            **({"reason": "It has no name."} if outcome == "skipped" else {}),
        }
        for number, outcome in enumerate(outcomes)
    ]
    skipped = outcomes.count("skipped")
    counts = {
        "operations": len(outcomes),
        "accepted": len(outcomes) - skipped,
        "renamed": 0,
        "skipped": skipped,
    }
    warnings = [{"pointer": "/servers/0", "detail": "Left out."}]
    return {"counts": counts, "operations": operations, "warnings": warnings}


def registered(*outcomes: str, **members: Any) -> dict[str, Any]:
    return {
        "name": "pets",
        "kind": "openapi",
        "origins": ["https://api.example.com"],
        "tool_count": len(outcomes),
        "slots": [{"slot": "key", "kind": "api_key", "stored": False}],
        "report": report(*outcomes),
        "needs_consent": [],
        **members,
    }


def pending(import_id: str = "0199") -> dict[str, Any]:
    return {"id": import_id, "state": "running", "status": None, "result": None}


def test_a_url_is_fetched_by_the_gateway(run: Run, stub: Any) -> None:
    stub.on("POST", "/providers", registered("accepted"), status=201)
    url = "https://user:s3cret@api.example.com/openapi.json?token=t0ken"
    ran = run("providers", "add", url, "--name", "pets", "--tag", "a", "--base-url", "https://x")
    assert ran.code == 0
    assert stub.seen[0].json() == {
        "name": "pets",
        "tags": ["a"],
        "options": {"base_url": "https://x"},
        "source": {"url": url},
    }
    assert stub.seen[0].headers["prefer"] == "respond-async"
    assert "s3cret" not in ran.out + ran.err
    assert "t0ken" not in ran.out + ran.err


@pytest.mark.parametrize(
    ("file", "content", "media_type"),
    [
        ("a.json", b'{"openapi": "3.1.0"}', "application/json"),
        ("a.yaml", b"openapi: 3.1.0\n", "application/yaml"),
        ("a.txt", b"\xef\xbb\xbf\n [1]", "application/json"),
        ("odd.yml", b'{"openapi": "3.1.0"}', "application/yaml"),
    ],
)
def test_a_file_is_sent_as_it_is(
    run: Run, stub: Any, tmp_path: Path, file: str, content: bytes, media_type: str
) -> None:
    stub.on("POST", "/providers", registered("accepted"), status=201)
    (tmp_path / file).write_bytes(content)
    assert run("providers", "add", file, "-n", "pets").code == 0
    assert stub.seen[0].body == content
    assert stub.seen[0].headers["content-type"] == media_type
    assert stub.seen[0].query == {"name": "pets"}


def test_a_file_with_settings_goes_as_multipart_with_the_same_bytes(
    run: Run, stub: Any, tmp_path: Path
) -> None:
    stub.on("POST", "/providers", registered("accepted"), status=201)
    content = b"openapi: 3.1.0\r\n--x\r\n\x00\xff"
    (tmp_path / "a.yaml").write_bytes(content)
    assert run("providers", "add", "a.yaml", "-n", "pets", "--tag", "t").code == 0
    seen = stub.seen[0]
    head = f"Content-Type: {seen.headers['content-type']}\r\n\r\n".encode()
    tags, file = message_from_bytes(head + seen.body).get_payload()
    assert orjson.loads(tags.get_payload(decode=True)) == ["t"]
    assert file.get_payload(decode=True) == content
    assert seen.query == {"name": "pets"}


def test_the_language_goes_with_a_url_and_with_a_file(run: Run, stub: Any, tmp_path: Path) -> None:
    stub.on("POST", "/providers", registered("accepted"), status=201)
    assert run("providers", "add", "https://a.example/a.json", "-n", "pets", "--language", "de").code == 0
    assert stub.seen[0].json()["language"] == "de"
    (tmp_path / "a.yaml").write_bytes(b"openapi: 3.1.0\n")
    assert run("providers", "add", "a.yaml", "-n", "pets", "--language", "de").code == 0
    seen = stub.seen[1]
    head = f"Content-Type: {seen.headers['content-type']}\r\n\r\n".encode()
    language, _ = message_from_bytes(head + seen.body).get_payload()
    assert language.get_payload(decode=True) == b"de"


def test_missing_consent_and_credential_are_shown_with_the_command_to_run(run: Run, stub: Any) -> None:
    consent = {
        "slot": "key",
        "origins": ["https://other.example.com"],
        "token_url": "https://auth.example.com/t",
    }
    answer = registered("accepted", "skipped", needs_consent=[consent])
    stub.on("POST", "/providers", answer, status=201)
    ran = run("providers", "add", "https://api.example.com/openapi.json")
    assert ran.code == 0
    assert "It has no name." in ran.out
    assert "GET /0" not in ran.out
    assert "credentials set pets key --kind api_key" in ran.err
    assert "https://other.example.com" in ran.err
    assert "https://auth.example.com/t" in ran.err
    assert "/servers/0: Left out." in ran.err


def test_strict_makes_a_skipped_operation_partial(run: Run, stub: Any) -> None:
    stub.on("POST", "/providers", registered("accepted", "skipped"), status=201)
    words = ("providers", "add", "https://api.example.com/openapi.json")
    assert run(*words).code == 0
    assert run(*words, "--strict").code == 4
    assert run(*words, "--strict", "--json").code == 4


def _documents(stub: Any, answers: dict[str, Response]) -> None:
    """Let the stand-in import the documents of these URLs, and find none elsewhere."""
    nothing = {"type": "urn:utcp-gateway:problem:upstream-error", "title": "Failed", "upstream_status": 404}

    async def respond(scope: Any, receive: Any, send: Any) -> None:
        url = orjson.loads(stub.seen[-1].body)["source"]["url"]
        absent = Response(orjson.dumps(nothing), status_code=502, media_type="application/problem+json")
        await answers.get(url, absent)(scope, receive, send)

    stub.answers["POST", "/providers"] = [respond]


def test_a_host_alone_is_asked_for_its_usual_documents(run: Run, stub: Any) -> None:
    found = Response(orjson.dumps(registered("accepted")), status_code=201)
    _documents(stub, {"http://user:s3cret@api.example/swagger.json": found})
    ran = run("providers", "add", "http://user:s3cret@api.example", "-n", "pets", "--tag", "a")
    assert ran.code == 0
    urls = [one.json()["source"]["url"] for one in stub.seen]
    paths = ["", "/openapi.json", "/openapi.yaml", "/swagger.json"]
    assert urls == [f"http://user:s3cret@api.example{path}" for path in paths]
    assert {tuple(one.json()["tags"]) for one in stub.seen} == {("a",)}
    assert "The document is http://api.example/swagger.json." in ran.err
    assert "s3cret" not in ran.err


def test_the_documents_that_a_page_names_are_tried_first(run: Run, stub: Any) -> None:
    named = ["https://other.example/openapi.json", "https://api.example/docs/v2.json"]
    page = {
        "type": "urn:utcp-gateway:problem:invalid-document", "title": "A page",
        "errors": [{"pointer": "/source/url", "detail": "Give another.", "expected": named}],
    }  # fmt: skip
    html = Response(orjson.dumps(page), status_code=422, media_type="application/problem+json")
    found = Response(orjson.dumps(registered("accepted")), status_code=201)
    _documents(stub, {"https://api.example/docs": html, "https://api.example/docs/v2.json": found})
    assert run("providers", "add", "https://api.example/docs", "-n", "pets").code == 0
    urls = [one.json()["source"]["url"] for one in stub.seen]
    assert urls == ["https://api.example/docs", "https://api.example/docs/v2.json"]


@for_each(
    ("url", "problem", "requests"),
    [
        ("https://api.example", {"upstream_status": 404}, 8),
        ("https://api.example/v1", {"upstream_status": 404}, 1),
        ("https://api.example", {"upstream_status": 401}, 1),
        ("https://api.example", {"upstream_status": 503}, 1),
        ("https://api.example", {"slug": "upstream-unreachable"}, 1),
        ("https://api.example", {"slug": "conflict", "status": 409}, 1),
    ],
)
def test_where_there_is_no_document_the_first_error_is_shown(
    run: Run, stub: Any, url: str, problem: dict[str, Any], requests: int
) -> None:
    stub.seen.clear()
    stub.problem("POST", "/providers", **{"status": 502, "title": "First", **problem})
    ran = run("providers", "add", url, "-n", "pets")
    assert (ran.code, len(stub.seen)) == (1, requests)
    assert "First" in ran.err
    assert ("/openapi.json, " in ran.err) is (requests > 1)


def test_missing_name_gives_a_hint(run: Run, stub: Any) -> None:
    stub.problem(
        "POST", "/providers", status=422, title="T", detail="D", errors=[{"pointer": "/name", "detail": "x"}]
    )
    ran = run("providers", "add", "https://api.example.com/openapi.json")
    assert ran.code == 1
    assert "--name" in ran.err


def test_asynchronous_import_is_polled_until_it_ends(run: Run, stub: Any) -> None:
    stub.on("POST", "/providers", pending(), status=202)
    done = {**pending(), "state": "done", "status": 201, "result": registered("accepted")}
    away = Response(b'{"title": "Unavailable"}', status_code=503, media_type="application/problem+json")
    stub.on("GET", "/imports/0199", pending(), away, pending(), done)
    ran = run("providers", "add", "https://api.example.com/openapi.json", "--json")
    assert ran.code == 0
    assert ran.json()["name"] == "pets"
    assert [one.path for one in stub.seen] == ["/providers"] + ["/imports/0199"] * 4


def test_the_progress_of_an_import_is_shown(run: Run, stub: Any, tmp_path: Path) -> None:
    (tmp_path / "providers.json").write_text("[]")
    stub.on("POST", "/providers", pending(), status=202)
    half = {**pending(), "progress": {"done": 1200, "total": 2500}}
    done = {**pending(), "state": "done", "status": 200, "result": {"entries": []}}
    stub.on("GET", "/imports/0199", pending(), half, done)
    ran = run("providers", "import", "providers.json", session=ClientSession(progress_seconds=0))
    assert ran.err.splitlines()[:2] == [
        "Importing providers.json",
        "Importing providers.json: 1,200 of 2,500",
    ]
    stub.on("GET", "/imports/0199", half, done)
    code, shown = on_terminal("providers", "import", "providers.json", url=stub.url)
    assert code == 0
    assert "1,200 of 2,500" in shown
    assert "0:00:0" in shown


def test_failed_asynchronous_import_is_reported_like_a_direct_failure(run: Run, stub: Any) -> None:
    problem = {
        "type": "urn:utcp-gateway:problem:invalid-document",
        "title": "Unusable",
        "detail": "No paths.",
    }
    stub.on("POST", "/providers", pending(), status=202)
    stub.on("GET", "/imports/0199", {**pending(), "state": "failed", "status": 422, "result": problem})
    ran = run("providers", "add", "https://api.example.com/openapi.json")
    assert ran.code == 1
    assert "Error: Unusable. No paths." in ran.err


def test_key_without_scope_to_poll_is_informed_that_the_import_continues(run: Run, stub: Any) -> None:
    stub.on("POST", "/providers", pending(), status=202)
    stub.problem("GET", "/imports/0199", status=403, title="Forbidden", detail="providers:read is missing.")
    ran = run("providers", "add", "https://api.example.com/openapi.json")
    assert ran.code == 1
    assert "continues" in ran.err
    assert len(stub.seen) == 2


def entries(*outcomes: str) -> dict[str, Any]:
    return {
        "entries": [
            {
                "name": f"p{number}",
                "outcome": outcome,
                "status": 201,
                "problem": {"title": "The upstream cannot be reached", "detail": "No such host."}
                if outcome == "failed"
                else None,
            }
            for number, outcome in enumerate(outcomes)
        ],
        "counts": {},
    }


@for_each(
    ("outcomes", "code"),
    [
        (("registered", "unchanged"), 0),
        (("registered", "failed"), 4),
        (("unchanged", "failed"), 4),
        (("failed", "failed"), 1),
        (("previewed",), 0),
    ],
)
@for_each("words", [("providers", "import", "-"), ("import", "-"), ("providers", "add", "-")])
def test_a_list_shows_the_outcome_of_each_entry(
    run: Run, stub: Any, words: tuple[str, ...], outcomes: tuple[str, ...], code: int
) -> None:
    stub.on("POST", "/providers", entries(*outcomes), status=207)
    stub.on("POST", "/import", entries(*outcomes), status=207)
    ran = run(*words, stdin="[]")
    assert ran.code == code
    for number, outcome in enumerate(outcomes):
        line = next(line for line in ran.out.splitlines() if f"p{number}" in line)
        assert line.startswith(outcome)
        assert ("No such host." in line) == (outcome == "failed")
    ran = run(*words, "--json", stdin="[]")
    assert (ran.code, ran.json()) == (code, entries(*outcomes))


def test_import_rejects_a_file_that_is_not_json(run: Run, stub: Any) -> None:
    assert run("providers", "import", "-", stdin="{").code == 2
    assert stub.seen == []


def test_preview_changes_nothing_and_lists_the_tools(run: Run, stub: Any) -> None:
    tool = {"name": "pets.a", "method": "GET", "url": "https://api.example.com/a", "description": "A"}
    answer = registered("accepted", tools=[tool], exists=True, difference=DIFFERENCE)
    stub.on("POST", "/providers/preview", answer)
    ran = run("providers", "add", "https://api.example.com/openapi.json", "--preview")
    assert ran.code == 0
    assert "pets.a" in ran.out
    assert "exists already" in ran.err
    assert [one.path for one in stub.seen] == ["/providers/preview"]


def test_refresh_shows_the_difference(run: Run, stub: Any) -> None:
    answer = registered("accepted", difference=DIFFERENCE)
    answer["report"] |= {"final_url": "https://b.example/openapi.json"}
    stub.on("POST", "/providers/pets/refresh", answer)
    stub.on("GET", "/providers/pets", {**answer, "source": None, "credentials": []})
    shown = run("providers", "show", "pets")
    ran = run("providers", "refresh", "pets")
    for out in (shown.out, ran.out):
        assert ["redirects", "to", "https://b.example/openapi.json"] in [
            line.split() for line in out.splitlines()
        ]
    assert ran.code == 0
    assert any(line.split() == ["added", "GET", "/a"] for line in ran.out.splitlines())
    assert "GET /b" not in ran.out
    assert stub.seen[-1].body == b""


def test_show_says_which_credential_is_missing(run: Run, stub: Any) -> None:
    credential = {
        "slot": "other",
        "kind": "bearer",
        "fingerprint": "ab12cd34",
        "allowed_origins": ["https://x"],
    }
    stub.on("GET", "/providers/pets", registered("accepted", credentials=[credential], source=None))
    ran = run("providers", "show", "pets")
    assert "slot key" in ran.err
    assert "other" in ran.out
    rows = run("credentials", "list", "pets").out.splitlines()
    assert [row.split()[:3] for row in rows[1:]] == [["key", "api_key", "no"], ["other", "bearer", "yes"]]


def test_remove_needs_confirmation(run: Run, stub: Any) -> None:
    stub.on("DELETE", "/providers/a")
    stub.on("DELETE", "/providers/b")
    refused = run("providers", "remove", "a", "b", stdin="y\n")
    assert (refused.code, stub.seen) == (2, [])
    assert "There is no terminal to ask on" in refused.err
    assert "--yes" in refused.err
    assert run("providers", "remove", "a", "b", "--yes").code == 0
    assert run("providers", "remove", "a", "--yes", "--json").json() == {"removed": ["a"]}


def test_export_and_import_carry_the_same_bytes(run: Run, stub: Any, tmp_path: Path) -> None:
    document = {"format": "utcp-gateway/1", "providers": [{"name": "pets"}]}
    stub.on("GET", "/export", document)
    stub.on("POST", "/import", entries("registered"))
    assert run("export").json() == document
    assert run("export", "out.json").code == 0
    assert run("import", "out.json").code == 0
    assert stub.seen[-1].json() == document
    assert run("export", "no/such/folder.json").code == 2
    assert (tmp_path / "out.json").stat().st_size > 10


def test_overlay_and_root_are_sent_with_the_document(run: Run, stub: Any, tmp_path: Any) -> None:
    (tmp_path / "overlay.yaml").write_text("overlay: 1.0.0\n")
    (tmp_path / "api.zip").write_bytes(b"PK\x03\x04rest")
    stub.on("POST", "/providers", {"name": "pets", "report": None}, status=201)
    options = ("--overlay", str(tmp_path / "overlay.yaml"), "--root", "a/openapi.yaml")
    assert run("providers", "add", str(tmp_path / "api.zip"), "--name", "pets", *options).code == 0
    body = stub.seen[-1].body
    assert b'name="overlay"\r\nContent-Type: text/plain\r\n\r\noverlay: 1.0.0\n\r\n' in body
    assert b'name="root"\r\nContent-Type: text/plain\r\n\r\na/openapi.yaml\r\n' in body
    assert b"Content-Type: application/zip\r\n\r\nPK\x03\x04rest" in body
    url = "https://docs.example.com/openapi.yaml"
    added = ("providers", "add", url, "--name", "pets")
    assert run(*added, "--no-follow-references", "--redirect-origin", "https://b.example").code == 0
    assert stub.seen[-1].json()["source"] == {"url": url, "follow_references": False}
    assert stub.seen[-1].json()["options"] == {"redirect_origin": "https://b.example"}
    assert run(*added, *options, "--follow-references").code == 0
    assert stub.seen[-1].json()["source"] == {
        "url": url,
        "overlay": "overlay: 1.0.0\n",
        "root": "a/openapi.yaml",
        "follow_references": True,
    }
    refused = run("providers", "add", str(tmp_path / "api.zip"), "--follow-references")
    assert (refused.code, len(stub.seen)) == (2, 3)


PENDING = {
    "source_key": "GET /pets",
    "change": "changed",
    "compatibility": "breaking",
    "pending_approval": True,
    "differences": [
        {
            "aspect": "server",
            "effect": "changed",
            "breaking": True,
            "pointer": "",
            "detail": "Calls would go to https://b.example instead of https://a.example.",
        }
    ],
}


def test_refresh_shows_compatibility_and_pending_changes(run: Run, stub: Any) -> None:
    keys = {"added": [], "changed": [], "unchanged": [], "removed": [], "pending_approval": ["GET /pets"]}
    difference = {**keys, "compatibility": "breaking", "operations": [PENDING]}
    pending = {"since": "2030-01-01T00:00:00Z", "operations": [PENDING]}
    stub.on("POST", "/providers/pets/refresh", {"name": "pets", "difference": difference, "pending": pending})
    ran = run("providers", "refresh", "pets")
    assert ran.code == 0
    line = next(line for line in ran.out.splitlines() if "GET /pets" in line)
    assert "breaking" in line
    assert "pending approval" in line
    assert "https://b.example" in line
    assert "utcp-gateway providers approve pets" in ran.err


def test_approve_sends_the_etag_of_what_was_shown(run: Run, stub: Any) -> None:
    provider = {"name": "pets", "pending": {"since": "x", "operations": [PENDING]}}
    stub.on("GET", "/providers/pets", provider, headers={"ETag": '"7"'})
    stub.on("POST", "/providers/pets/approve", {"name": "pets", "origins": ["https://b.example"]})
    refused = run("providers", "approve", "pets", stdin="y\n")
    assert (refused.code, len(stub.seen)) == (2, 1)
    assert "https://b.example" in refused.out
    ran = run("providers", "approve", "pets", "--yes")
    assert ran.code == 0
    assert stub.seen[-1].headers["if-match"] == '"7"'
    assert "https://b.example" in ran.err
    stub.problem("POST", "/providers/pets/approve", status=412, title="It has changed")
    assert run("providers", "approve", "pets", "--yes").code == 1


def test_approve_shows_all_changes_in_each_format(run: Run, stub: Any) -> None:
    difference = {**PENDING["differences"][0], "detail": "x" * 500 + " the end"}
    operations = [{**PENDING, "differences": [difference]}]
    stub.on("GET", "/providers/pets", {"name": "pets", "pending": {"since": "x", "operations": operations}})
    for options, output in (((), "out"), (("-o", "json"), "err")):
        refused = run("providers", "approve", "pets", *options, stdin="y\n")
        assert (refused.code, len(stub.seen)) == (2, 1)
        assert "the end" in getattr(refused, output)
        stub.seen.clear()


def test_the_server_and_its_variables_go_with_a_registration(run: Run, stub: Any) -> None:
    stub.on("POST", "/providers", registered("accepted"), status=201)
    chosen = ("--server", "Production", "--server-variable", "tenant=acme", "--server-variable", "base=a=b")
    assert run("providers", "add", "https://api.example.com/o.json", "--name", "pets", *chosen).code == 0
    assert orjson.loads(stub.seen[0].body)["options"] == {
        "server": "Production",
        "server_variables": {"tenant": "acme", "base": "a=b"},
    }
    ran = run("providers", "add", "https://api.example.com/o.json", "--server-variable", "tenant")
    assert ran.code == 2
    assert "NAME=VALUE" in ran.err


def test_refresh_stores_the_server_and_adds_to_the_variables(run: Run, stub: Any) -> None:
    stub.on("GET", "/providers/pets", {"options": {"server_variables": {"region": "eu", "tenant": "demo"}}})
    stub.on("PATCH", "/providers/pets", {"name": "pets"})
    stub.on("POST", "/providers/pets/refresh", registered("accepted", difference=DIFFERENCE))
    assert run("providers", "refresh", "pets", "--server-variable", "tenant=acme").code == 0
    assert [one.method for one in stub.seen] == ["GET", "PATCH", "POST"]
    assert orjson.loads(stub.seen[1].body) == {
        "options": {"server_variables": {"region": "eu", "tenant": "acme"}}
    }


def test_a_refresh_that_rejects_the_server_restores_what_was_stored(run: Run, stub: Any) -> None:
    stub.on("GET", "/providers/pets", {"options": {"server_variables": {"region": "eu"}}})
    stub.on("PATCH", "/providers/pets", {"name": "pets"})
    stub.problem("POST", "/providers/pets/refresh", status=422, title="The options do not fit the document")
    chosen = ("--server", "nope", "--server-variable", "region=mars")
    assert run("providers", "refresh", "pets", *chosen).code == 1
    assert [one.method for one in stub.seen] == ["GET", "PATCH", "POST", "PATCH"]
    assert orjson.loads(stub.seen[-1].body) == {
        "options": {"server": None, "server_variables": {"region": "eu"}}
    }
