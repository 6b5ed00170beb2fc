"""Calls of tools with JSON: results as text, errors as values, sync and async, logs."""

import asyncio
import dataclasses
import datetime as dt
import enum
import functools
import json
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pydantic import BaseModel

from utcp_gateway_client.tools import (
    InvalidArguments,
    Progress,
    Tool,
    ToolError,
    preview,
    progress_to,
    report_progress,
    tool,
)

LOGGER = "utcp_gateway_client.tools.tool"


class Place(BaseModel):
    city: str
    tags: list[str] = []


@dataclasses.dataclass
class Point:
    x: int


class Kind(enum.StrEnum):
    A = "a"


@tool
def visit(place: Place, days: int) -> str:
    return f"{days} days in {place.city}"


def returns(value: Any) -> Tool[..., Any]:
    def give():
        return value

    return Tool(give)


@pytest.mark.parametrize(
    ("value", "text", "as_json"),
    [
        ("", "", '""'),
        ("Größe", "Größe", '"Größe"'),
        (Kind.A, "a", '"a"'),
        (10, "10", "10"),
        (True, "true", "true"),
        (None, "null", "null"),
        (float("inf"), '"Infinity"', '"Infinity"'),
        ([1, "ä"], '[1,"ä"]', '[1,"ä"]'),
        (Place(city="Hull"), '{"city":"Hull","tags":[]}', '{"city":"Hull","tags":[]}'),
        (Point(1), '{"x":1}', '{"x":1}'),
        (dt.date(2026, 1, 2), '"2026-01-02"', '"2026-01-02"'),
        (b"\x00\xff", "AP8=", '"AP8="'),
        ("\ud800", "?", '"?"'),
    ],
)
def test_result_is_text(value, text, as_json):
    result = returns(value).execute()
    assert (result.text, result.json, result.is_error) == (text, as_json, False)
    assert returns(value).exec("{}") == text


def test_bytes_are_kept_beside_their_base64():
    assert returns(b"\x00\xff").execute().content == b"\x00\xff"
    assert returns("text").execute().content is None


def test_result_without_json_is_an_error():
    result = returns(object()).execute()
    assert result.error == "failed"
    assert json.loads(result.text) == {"error": "The result has no JSON: it is or holds a object."}


@pytest.mark.parametrize("empty", ["{}", "", None, " { } ", {}])
def test_tool_without_parameters_accepts_no_argument(empty):
    assert returns("done").execute(empty).text == "done"


@pytest.mark.parametrize(
    ("given", "pointers"),
    [
        ('{"a": 1}', ["/a"]),
        ("[]", [""]),
        ("nothing", [""]),
        ("null", [""]),
    ],
)
def test_tool_without_parameters_rejects_others(given, pointers):
    assert [each.pointer for each in returns("done").execute(given).errors] == pointers


@pytest.mark.parametrize(
    ("given", "pointers"),
    [
        ("", ["/place", "/days"]),
        ('{"place": {"city": "Hull"}}', ["/days"]),
        ('{"place": {}, "days": 1}', ["/place/city"]),
        ('{"place": {"city": "Hull", "tags": ["a", 1]}, "days": "many"}', ["/place/tags/1", "/days"]),
        ('{"place": {"city": "Hull"}, "days": 1, "a/b~c": 1}', ["/a~1b~0c"]),
        ('{"place": 1, "dayz": 2}', ["/dayz", "/place", "/days"]),
        ('{"place": {"city": "Hull"}, "days": NaN}', [""]),
        ("[" * 100_000, [""]),
        ('{"place"', [""]),
    ],
)
def test_wrong_arguments_are_an_error_with_pointers(given, pointers):
    result = visit.execute(given)
    assert result.error == "invalid_arguments"
    assert [each.pointer for each in result.errors] == pointers
    body = json.loads(visit.exec(given))
    assert body["error"] == "The arguments are not valid."
    assert [each["pointer"] for each in body["errors"]] == pointers
    assert all(each["message"] for each in body["errors"])


def test_pointer_leaves_out_the_branches_of_unions():
    @tool
    def take(value: int | list[Place]) -> str:
        return "taken"

    result = take.execute('{"value": [{"city": 1}]}')
    assert {each.pointer for each in result.errors} == {"/value", "/value/0/city"}


def test_deserialize_raises_what_execute_returns():
    assert visit.deserialize is not None
    with pytest.raises(InvalidArguments) as caught:
        visit.deserialize("{}")
    assert caught.value.errors == visit.execute("{}").errors


def test_message_of_a_tool_error_is_for_the_caller():
    @tool
    def stock() -> str:
        raise ToolError("The shop is closed.")

    assert json.loads(stock.exec("")) == {"error": "The shop is closed."}


async def awaits_what_is_cancelled() -> None:
    """Await a task that something else has cancelled."""
    task = asyncio.ensure_future(asyncio.Event().wait())
    task.cancel()
    await task


def runs_what_is_cancelled() -> None:
    """Run such a coroutine function in a loop of its own."""
    asyncio.run(awaits_what_is_cancelled())


@pytest.mark.parametrize("function", [awaits_what_is_cancelled, runs_what_is_cancelled])
async def test_what_a_function_awaits_is_cancelled_and_its_call_is_not(function):
    result = await Tool(function).execute_async("{}")
    assert (result.error, result.message) == ("failed", "The tool has failed (CancelledError).")


@pytest.mark.parametrize("raised", [ValueError("password=hunter2"), SystemExit(2), StopIteration("hunter2")])
async def test_other_exceptions_are_named_and_logged_but_not_told(raised, caplog):
    @tool
    def broken() -> str:
        raise raised

    expected = {"error": f"The tool has failed ({type(raised).__name__})."}
    assert json.loads(broken.exec("")) == expected
    assert json.loads((await broken.execute_async()).text) == expected
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
    assert caplog.records[0].exc_info[1] is raised


def test_async_function_is_called_from_sync_code():
    @tool
    async def double(a: int) -> int:
        await asyncio.sleep(0)
        return 2 * a

    assert double.exec('{"a": 4}') == "8"
    assert json.loads(double.exec('{"a": "x"}'))["errors"][0]["pointer"] == "/a"


async def test_async_tool_is_not_run_by_sync_code_within_a_loop():
    @tool
    async def double(a: int) -> int:
        return 2 * a

    with pytest.raises(RuntimeError, match="await execute_async"):
        double.execute({"a": 1})


async def test_decorated_functions_keep_their_parameters():
    def traced(function):
        @functools.wraps(function)
        def inner(*args, **kwargs):
            return function(*args, **kwargs)

        return inner

    @tool
    @traced
    async def double(a: int) -> int:
        """Double it."""
        return 2 * a

    @tool
    @traced
    def triple(a: int) -> int:
        return 3 * a

    assert (double.description, double.argument_schema["required"]) == ("Double it.", ["a"])
    assert (await double.execute_async({"a": 2})).text == "4"
    assert (await triple.execute_async({"a": 2})).text == "6"


async def test_sync_function_runs_in_a_thread_and_async_in_the_loop():
    @tool
    def here() -> int:
        return threading.get_ident()

    @tool
    async def there() -> int:
        return threading.get_ident()

    assert (await here.execute_async()).text != str(threading.get_ident())
    assert (await there.execute_async()).text == str(threading.get_ident())
    with ThreadPoolExecutor(1) as threads:
        (own,) = threads.map(lambda _: threading.get_ident(), [0])
        assert (await here.execute_async(threads=threads)).text == str(own)


async def test_failing_async_function_is_an_error():
    @tool
    async def broken() -> str:
        raise KeyError("x")

    assert (await broken.execute_async()).message == "The tool has failed (KeyError)."


async def test_cancellation_of_an_async_function_is_not_a_result():
    started = asyncio.Event()

    @tool
    async def wait() -> None:
        started.set()
        await asyncio.Event().wait()

    running = asyncio.create_task(wait.execute_async())
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_progress_is_reported_from_threads_and_tasks():
    @tool
    def slow() -> str:
        report_progress(1, 2, "half")
        return "done"

    @tool
    async def quick() -> str:
        await asyncio.create_task(report())
        return "done"

    async def report() -> None:
        report_progress(0.5)

    told: list[Progress] = []
    with progress_to(told.append):
        await slow.execute_async()
        await quick.execute_async()
    # Nobody listens here.
    slow.execute()
    assert told == [Progress(1, 2, "half"), Progress(0.5)]


def test_logs_at_debug_have_previews(caplog):
    @tool
    def echo(text: str) -> str:
        return text

    secret_end = "END"
    text = "€" * 200 + secret_end
    with caplog.at_level(logging.DEBUG, logger=LOGGER):
        assert echo.exec(json.dumps({"text": text}, ensure_ascii=False)) == text
    logged = [record.getMessage() for record in caplog.records]
    assert [record.levelname for record in caplog.records] == ["DEBUG"] * 3
    assert all(secret_end not in message for message in logged)
    assert logged[2] == f"Tool echo: the result is {'€' * 166}... (603 bytes)"


def test_nothing_is_logged_above_debug(caplog):
    with caplog.at_level(logging.INFO):
        visit.exec("{}")
    assert caplog.records == []


@pytest.mark.parametrize("limit", range(495, 506))
@pytest.mark.parametrize("letter", ["a", "ä", "€", "𝄞"])
def test_preview_is_cut_between_characters(letter, limit):
    text = "x" + letter * 600
    cut = preview(text, limit=limit)
    kept = cut.partition("...")[0]
    assert text.startswith(kept)
    assert limit - 3 <= len(kept.encode()) <= limit
    assert preview("ä" * 250) == "ä" * 250
    assert preview(b"\xff" * 3) == "\ufffd" * 3
