"""Entries that are made from a vendor's document are recorded with its SDK, wholly; tests/interop compares the requests."""

import functools
from collections import Counter
from dataclasses import asdict
from typing import Any

from app.providers.plugins.entry import PluginDocument, PluginEntry
from app.providers.plugins.loader import PluginCatalogue
from tests.harness.cases import for_each
from tests.plugins.record import RECORDED, stored
from tests.plugins.requests import SentRequest, unexplained
from tests.plugins.sdks import SDKS
from tests.plugins.table import PAGE, with_block

CATALOGUE = PluginCatalogue()
SENT = SentRequest(
    method="POST",
    origin="https://api.example.com",
    path="/items",
    query={"limit": ["2"]},
    headers={"authorization": "Bearer test-credential"},
    content_type="application/json",
    body={"name": "tea", "count": 1},
)


@functools.cache
def read_entries() -> list[PluginEntry]:
    """Return the entries that are made from a document."""
    return [entry for entry in map(CATALOGUE.read, CATALOGUE.names()) if entry.document is not None]


def document(entry: PluginEntry) -> PluginDocument:
    assert entry.document is not None
    return entry.document


def test_each_entry_has_an_sdk_and_a_recording() -> None:
    names = sorted(entry.name for entry in read_entries())
    assert sorted(SDKS) == names
    assert sorted(file.stem for file in RECORDED.glob("*.json")) == names


@for_each("entry", read_entries, ids=lambda entry: entry.name)
def test_each_operation_is_recorded_once(entry: PluginEntry) -> None:
    recorded = [one["tool"] for one in stored(entry.name)["operations"]]
    assert Counter(recorded) == Counter(entry.tool_names)


@for_each("entry", read_entries, ids=lambda entry: entry.name)
def test_an_entry_has_5_to_20_operations_with_descriptions_of_its_own(entry: PluginEntry) -> None:
    operations = document(entry).operations
    assert 5 <= len(operations) <= 20
    for one in operations:
        assert one.description is not None
        assert one.description.endswith((".", '".')), one.name


@for_each("entry", read_entries, ids=lambda entry: entry.name)
def test_an_entry_names_a_package_with_its_document(entry: PluginEntry) -> None:
    assert document(entry).mirrors


@for_each("entry", read_entries, ids=lambda entry: entry.name)
def test_the_recording_is_of_the_pinned_sdk(entry: PluginEntry) -> None:
    sdk = SDKS[entry.name]
    assert stored(entry.name)["sdk"] == {**asdict(sdk), "version": sdk.version}


def test_no_two_entries_have_tools_of_the_same_name() -> None:
    names = Counter(name for entry in map(CATALOGUE.read, CATALOGUE.names()) for name in entry.tool_names)
    assert [name for name, count in names.items() if count > 1] == []


def test_the_table_in_the_documentation_is_up_to_date() -> None:
    page = PAGE.read_text()
    assert with_block(page) == page, "make plugin-requests"


@for_each(
    ("change", "at"),
    [
        ({"method": "PUT"}, "/method"),
        ({"origin": "http://api.example.com"}, "/origin"),
        ({"path": "/v2/items"}, "/path"),
        ({"query": {"limit": ["2"], "page": ["1"]}}, "/query/page"),
        ({"headers": {"authorization": "token test-credential"}}, "/headers/authorization"),
        ({"content_type": "application/x-www-form-urlencoded"}, "/content_type"),
        ({"body": {"name": "tea", "count": True}}, "/body/count"),
        ({"body": {"name": "tea"}}, "/body/count"),
    ],
)
def test_each_difference_is_found(change: dict[str, Any], at: str) -> None:
    recorded: dict[str, Any] = {"equivalent": [], "differences": []}
    operation = {"request": SENT.to_json(), "differences": []}
    sent = SentRequest.from_json({**SENT.to_json(), **change})
    assert unexplained(recorded, operation, sent, set()) == [at]
    explained = {**operation, "differences": [{"at": at, "reason": "It is known."}]}
    assert unexplained(recorded, explained, sent, set()) == []


def test_a_reason_without_a_difference_is_found() -> None:
    recorded: dict[str, Any] = {"equivalent": [], "differences": []}
    operation = {"request": SENT.to_json(), "differences": [{"at": "/query/limit", "reason": "It was so."}]}
    assert unexplained(recorded, operation, SENT, set()) == ["/query/limit"]


def test_a_posted_form_can_be_a_query() -> None:
    form = SentRequest.from_json(
        {
            **SENT.to_json(),
            "query": {},
            "content_type": "application/x-www-form-urlencoded",
            "body": {"limit": ["2"]},
        }
    )
    sent = SentRequest.from_json({**SENT.to_json(), "method": "GET", "content_type": None, "body": None})
    recorded: dict[str, Any] = {
        "equivalent": [{"form": "form-as-query", "reason": "Both are taken."}],
        "differences": [],
    }
    used: set[str] = set()
    assert unexplained(recorded, {"request": form.to_json(), "differences": []}, sent, used) == []
    assert used == {"form-as-query"}
