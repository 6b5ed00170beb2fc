"""Notices in the URL of a page."""

from urllib.parse import urlencode

from starlette.datastructures import QueryParams

from app.console.views.notices import Notice, read_notice

KEY = b"k" * 32
NOTICE = Notice("tools-disabled", 3, "library", "/console/tools/enable", (("name", "a=b"), ("name", "c")))


def _query(notice: Notice, key: bytes = KEY, /, **changes: str) -> QueryParams:
    return QueryParams(urlencode(notice.as_query(key) | changes, doseq=True))


def _read(query: QueryParams, key: bytes = KEY):
    return read_notice(query, lambda message: message, key)


def test_a_notice_is_read_as_it_was_made() -> None:
    shown = _read(_query(NOTICE))
    assert shown is not None
    assert shown.text == "Disabled 3 tools."
    assert shown.subject == "library"
    assert shown.undo == "/console/tools/enable"
    assert shown.undo_fields == (("name", "a=b"), ("name", "c"))


def test_the_notice_of_another_session_is_none() -> None:
    assert _read(_query(NOTICE, b"other")) is None
    assert _read(_query(NOTICE, b"")) is None


def test_a_changed_notice_is_none() -> None:
    for changes in (
        {"undo": "/console/keys/1/revoke"},
        {"undo_field": "name=d"},
        {"undo_mac": ""},
        {"undo_mac": "é"},
        {"notice": "provider-deleted"},
        {"count": "30"},
        {"subject": "your key: call 555"},
        {"undo": "/console/tools/enable\0name=a=b"},
    ):
        assert _read(_query(NOTICE, **changes)) is None, changes


def test_a_notice_without_undo_is_authenticated_too() -> None:
    shown = _read(_query(Notice("saved")))
    assert shown is not None
    assert (shown.text, shown.undo) == ("Saved.", "")
    assert _read(QueryParams("notice=saved")) is None


def test_without_a_session_there_is_no_undo() -> None:
    shown = _read(_query(NOTICE, b""), b"")
    assert shown is not None
    assert shown.undo == ""


def test_texts_come_from_here_only() -> None:
    assert _read(QueryParams("notice=<script>")) is None
    assert _read(QueryParams("")) is None


def test_a_count_is_a_number() -> None:
    shown = _read(QueryParams("notice=tools-enabled&count=%3Cb%3E"), b"")
    assert shown is not None
    assert shown.text == "Enabled 0 tools."
