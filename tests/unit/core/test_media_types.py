"""One table of what each function says of each kind of media type, and Accept by RFC 9110 section 12.5.1."""

import pytest

from app.core.media_types import (
    choose_media_type,
    includes,
    is_json,
    is_textual,
    is_xml,
    may_be_json,
    parse_accept,
    parse_essence,
    weigh,
)
from tests.harness.cases import for_each

# The media type; its essence; whether it is JSON, may be JSON, is XML, is text.
TABLE = [
    ("application/json", "application/json", "json may_be_json textual"),
    ("Application/JSON; charset=UTF-8", "application/json", "json may_be_json textual"),
    (" application/json ", "application/json", "json may_be_json textual"),
    ("text/json", "text/json", "json may_be_json textual"),
    ("application/problem+json", "application/problem+json", "json may_be_json textual"),
    ("application/vnd.api+JSON;v=1", "application/vnd.api+json", "json may_be_json textual"),
    ("*/*", "*/*", "may_be_json"),
    ("*/*;q=0.1", "*/*", "may_be_json"),
    ("application/*", "application/*", "may_be_json"),
    ("text/*", "text/*", "textual"),
    ("application/x-ndjson", "application/x-ndjson", "textual"),
    ("application/jsonl", "application/jsonl", "textual"),
    ("application/json-seq", "application/json-seq", "textual"),
    ("application/geo+json-seq", "application/geo+json-seq", "textual"),
    ("application/jsonpath", "application/jsonpath", ""),
    ("text/event-stream", "text/event-stream", "textual"),
    ("text/plain;charset=utf-8", "text/plain", "textual"),
    ("TEXT/CSV", "text/csv", "textual"),
    ("application/xml", "application/xml", "xml textual"),
    ("text/xml; charset=iso-8859-1", "text/xml", "xml textual"),
    ("image/svg+xml", "image/svg+xml", "xml textual"),
    ("application/xml-dtd", "application/xml-dtd", "textual"),
    ("application/yaml", "application/yaml", "textual"),
    ("application/vnd.oai.openapi+yaml", "application/vnd.oai.openapi+yaml", "textual"),
    ("application/graphql", "application/graphql", "textual"),
    ("application/toml", "application/toml", "textual"),
    ("application/sql", "application/sql", "textual"),
    ("application/jwt", "application/jwt", "textual"),
    ("application/csv", "application/csv", "textual"),
    ("application/javascript", "application/javascript", "textual"),
    ("application/x-javascript", "application/x-javascript", "textual"),
    ("application/x-www-form-urlencoded", "application/x-www-form-urlencoded", "textual"),
    ("multipart/form-data; boundary=x", "multipart/form-data", ""),
    ("application/octet-stream", "application/octet-stream", ""),
    ("application/pdf", "application/pdf", ""),
    ("image/png", "image/png", ""),
    (
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "",
    ),
    ("", "", ""),
]


@for_each(("media_type", "essence", "kinds"), TABLE)
def test_each_function_for_each_kind_of_media_type(media_type: str, essence: str, kinds: str) -> None:
    functions = {"json": is_json, "may_be_json": may_be_json, "xml": is_xml, "textual": is_textual}
    assert parse_essence(media_type) == essence
    assert " ".join(name for name, function in functions.items() if function(media_type)) == kinds


@for_each(
    ("media_range", "media_type", "included"),
    [
        ("*/*", "image/png", True),
        ("text/*", "text/html; charset=utf-8", True),
        ("text/*", "application/json", False),
        ("TEXT/HTML", "text/html", True),
        ("text/html;level=1", "text/html", False),
        ("text/html;level=1", 'text/html;charset=utf-8;LEVEL="1"', True),
        ("application/json", "application/problem+json", False),
        ("*/json", "application/json", False),
        ("", "text/html", False),
    ],
)
def test_a_range_includes_types(media_range: str, media_type: str, included: bool) -> None:
    assert includes(media_range, media_type) is included


def test_the_most_specific_range_decides() -> None:
    # The example of RFC 9110 section 12.5.1.
    ranges = parse_accept(
        "text/*;q=0.3, text/plain;q=0.7, text/plain;format=flowed, text/plain;format=fixed;q=0.4, */*;q=0.5"
    )
    weights = {
        "text/plain;format=flowed": 1, "text/plain": 0.7, "text/html": 0.3, "image/jpeg": 0.5,
        "text/plain;format=fixed": 0.4, "text/html;level=3": 0.3,
    }  # fmt: skip
    assert {media_type: weigh(media_type, ranges) for media_type in weights} == weights


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        ("", "application/json"),
        ("*/*", "application/json"),
        ("text/html", "text/html"),
        ("text/html, application/json", "application/json"),
        ("text/html, application/json;q=0.9", "text/html"),
        ("text/*;q=0.5, application/json;q=0.4", "text/html"),
        ("text/html;q=0, */*", "application/json"),
        ("application/json;q=0, */*;q=0.1", "text/html"),
        ("text/html;q=nan, application/json;q=0.1", "application/json"),
        ("text/html;q=high", "application/json"),
        ("image/png", "application/json"),
    ],
)
def test_the_offer_of_the_highest_weight_is_chosen(accept: str, chosen: str) -> None:
    assert choose_media_type(accept, ("application/json", "text/html")) == chosen
