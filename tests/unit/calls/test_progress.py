"""Reports of progress pass with the secrets of their call masked."""

from dataclasses import replace

from app.calls.progress import MaskedProgress
from app.calls.retries import _copy_call
from app.outbound.limits import Limits
from app.protocols.base import Call
from app.security.response_masking import ResponseMasker

OLD, NEW = "canary-of-the-first-token", "canary-of-the-second-token"


def call_of(*secrets):
    call = Call(
        target=None, arguments={}, credentials=(), deadline=0.0, limits=Limits(), call_id="",
        masker=ResponseMasker(secrets) if secrets else None,
    )  # fmt: skip
    reports = []
    call.on_progress = MaskedProgress(lambda *report: reports.append(report), call)
    return call, reports


def test_texts_are_masked_whole_and_escaped():
    call, reports = call_of(OLD)
    call.on_progress(1, 2, f"with {OLD}")
    escaped = OLD.replace("c", "\\u0063")
    call.on_progress(2, None, f'{{"key": "{escaped}"}}')
    call.on_progress(3, None, None)
    assert reports == [(1, 2, "with ***"), (2, None, '{"key": "***"}'), (3, None, None)]


def test_a_copy_of_a_call_masks_its_own_secrets():
    call, reports = call_of(OLD)
    copy = _copy_call(call, masker=ResponseMasker([OLD, NEW]))
    copy.on_progress(1, None, f"{OLD} {NEW}")
    assert reports == [(1, None, "*** ***")]


def test_secrets_that_are_added_during_the_call_are_masked():
    call, reports = call_of(OLD)
    call.masker = call.masker.combined_with(ResponseMasker([NEW]))
    call.on_progress(1, None, NEW)
    assert reports == [(1, None, "***")]


def test_a_report_whose_number_is_a_secret_is_dropped():
    call, reports = call_of("123456789012")
    call.on_progress(123456789012.0, None, "text")
    call.on_progress(1, 123456789012.0, "text")
    call.on_progress(2, 3, "text")
    assert reports == [(2, 3, "text")]


def test_a_text_that_is_too_long_is_left_out():
    call, reports = call_of()
    call.on_progress(1, None, "x" * 65_536)
    call.on_progress(2, None, "x" * 65_537)
    assert [message and len(message) for _, _, message in reports] == [65_536, None]


def test_a_call_without_a_listener_has_none_in_its_copies():
    call, _ = call_of()
    assert _copy_call(replace(call, on_progress=None), call_id="x").on_progress is None
