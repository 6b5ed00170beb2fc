"""Half a megabyte in one field of a form does not stop the loop, whatever its characters."""

import asyncio
import time
from collections.abc import Awaitable
from typing import Any
from urllib.parse import quote_plus, unquote_plus

import pytest

from app.console.views.values import highlighted, visible
from tests.api.console.test_hostile_requests import admin, application
from tests.harness.scaling import assert_linear

__all__ = ["admin", "application"]

pytestmark = pytest.mark.time_limit(120)

SIZE = 500_000
TOOL = "/console/tools/books.list"
QUOTES = '"' * SIZE
ESCAPED = '{"n": "' + '\\"' * (SIZE // 2) + '"}'
FORMS = (
    ("JSON", TOOL, {"do": "json", "as": "json", "args": QUOTES}),
    ("JSON, escaped", TOOL, {"do": "json", "as": "json", "args": ESCAPED}),
    ("JSON as a form", TOOL, {"do": "form", "as": "json", "args": ESCAPED}),
    ("call", TOOL, {"do": "call", "as": "json", "args": ESCAPED}),
    ("dry run", TOOL, {"do": "dry_run", "as": "json", "args": ESCAPED}),
    ("field", TOOL, {"do": "dry_run", "/n": QUOTES}),
    ("field to JSON", TOOL, {"do": "json", "/n": QUOTES}),
    ("other members", TOOL, {"do": "json", "rest:#": QUOTES}),
    ("custom tool", "/console/add/tool", {"provider": "books", "name": "x", "inputs": QUOTES}),
    ("preset", "/console/toolsets/few/tools/books.list", {"preset:n": QUOTES}),
)


async def longest_step(work: Awaitable[Any]) -> float:
    """Return the CPU seconds of the longest step of this loop until the work is done."""
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        before = time.thread_time()
        while True:
            await asyncio.sleep(0.001)
            now = time.thread_time()
            longest, before = max(longest, now - before), now

    watching = asyncio.create_task(watch())
    try:
        await work
    finally:
        watching.cancel()
    return longest


async def test_half_a_megabyte_of_quotes_does_not_stop_the_loop(admin):
    encoded = quote_plus(QUOTES)
    began = time.thread_time()
    unquote_plus(encoded)
    # What decoding one such field costs, in one step: measured here, since machines differ.
    decoding = time.thread_time() - began
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    # What is done once, such as the compilation of templates, is no part of it.
    for _, path, fields in FORMS:
        await admin.post(path, data={name: value[:1] for name, value in fields.items()})
    failed = []
    for what, path, fields in FORMS:
        content = "&".join(f"{quote_plus(name)}={quote_plus(value)}" for name, value in fields.items())
        # The shortest of three: a garbage collection of everything that other tests have made is no part of it.
        steps = [
            await longest_step(admin.post(path, content=content.encode(), headers=headers)) for _ in range(3)
        ]
        step = min(steps)
        if step > decoding / 2:
            failed.append((what, round(step, 3), round(decoding, 3)))
    assert not failed


def test_texts_are_shown_in_linear_time():
    for text in ('\\"', '"', '"a" ', "\u202ea", "é\u4e00"):
        assert_linear(lambda size, text=text: visible(text * size), 2_000)
        assert_linear(lambda size, text=text: highlighted((text * size)[:19_999]), 1_000)
