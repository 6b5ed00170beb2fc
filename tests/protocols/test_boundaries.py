"""An argument never changes how many messages an upstream gets, nor where they begin and end."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from app.core.errors import InvalidArguments, InvalidInput
from app.formats.utcp.call_template import compile_template
from app.outbound.guard import Guard
from app.outbound.http import Engine
from app.protocols.base import AdapterContext
from app.protocols.registry import PROTOCOLS, Adapters
from app.protocols.tcp.template import TcpTemplate
from app.security.masking import Masker
from tests.harness.cases import for_each
from tests.protocols.calling import call_of
from tests.protocols.kits.all import settings as operator_settings
from tests.protocols.kits.ubp import COMMANDS
from tests.protocols.witnesses import WITNESSES, Place, Witness

ATTACK = "x\nFLUSHALL\nSET admin 1"
PIECES = [
    "\n", "\r\n", "\r", "\x00", "\t", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\x03", "END", "EN", "|", "a", "aa", "}", "}}",
    '"', "'", "\\", "\\n", "{", ",", ";", "&", "=", "?", "#", "/", "../", "%0d%0a", "%00", "-", "--", "--word", "$CMD_0_OUTPUT",
    "UTCP_ARG_other_UTCP_ARG", " HTTP/1.1\r\n", "\r\nX-Injected: 1", "\r\n\r\nGET /b HTTP/1.1\r\nHost: b\r\n\r\n", "; b=1",
    "é", "\U0001f600", "x" * 70,
]  # fmt: skip
WORDS = st.lists(st.sampled_from(PIECES) | st.text(max_size=4), min_size=1, max_size=5).map("".join)
SLOW = {"cli": 1, "tcp": 15}


def test_every_protocol_has_a_witness() -> None:
    assert set(WITNESSES) == set(PROTOCOLS)


@contextlib.asynccontextmanager
async def adapters_on_loopback() -> AsyncIterator[Adapters]:
    engine = Engine(Guard(allow_networks=["127.0.0.0/8"]))
    adapters = Adapters(AdapterContext(engine, engine.network, Masker(), operator_settings(), COMMANDS))
    try:
        yield adapters
    finally:
        await adapters.aclose()
        await engine.aclose()


@contextlib.asynccontextmanager
async def running(protocol: str, folder: Path) -> AsyncIterator[tuple[Witness, Any]]:
    witness = WITNESSES[protocol]()
    async with witness.serve(folder), adapters_on_loopback() as adapters:
        yield witness, adapters[protocol]


async def sent(witness: Witness, adapter: Any, place: Place, word: str) -> list[Any]:
    """What the upstream noted of a call; raises what the adapter raises."""
    result = await adapter.call(call_of(adapter, place.template, place.arguments(word)))
    try:
        await result.read()
    finally:
        await result.aclose()
    return await witness.noted()


@pytest.mark.parametrize("protocol", sorted(PROTOCOLS))
def test_an_argument_changes_neither_the_number_nor_the_ends_of_messages(
    protocol: str, tmp_path: Path
) -> None:
    with asyncio.Runner() as runner:
        context = running(protocol, tmp_path)
        witness, adapter = runner.run(context.__aenter__())
        try:
            _check(protocol, witness, adapter, runner)
        finally:
            runner.run(context.__aexit__(None, None, None))


def _check(protocol: str, witness: Witness, adapter: Any, runner: asyncio.Runner) -> None:
    assert witness.places
    usual: list[tuple[Place, list[Any]]] = []
    for place in witness.places:
        # JSON cannot be sent with an end of message that is itself of JSON.
        with contextlib.suppress(InvalidArguments):
            # The first call of a place may open a session.
            runner.run(sent(witness, adapter, place, "b"))
            usual.append((place, runner.run(sent(witness, adapter, place, "b"))))
    assert len(usual) > len(witness.places) * 0.8

    async def one(word: str) -> None:
        for place, shape in usual:
            try:
                found = await sent(witness, adapter, place, word)
            except (InvalidArguments, InvalidInput):
                # Nothing of it was sent: the next call would find it.
                continue
            assert found == shape, place.template

    @settings(
        max_examples=SLOW.get(protocol, 40), deadline=None, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(WORDS)
    @example(ATTACK)
    @example("a\r\n\r\n")
    @example("\n\n;")
    @example("{")
    @example("")
    def attacked(word: str) -> None:
        runner.run(one(word))

    attacked()
    # Programs are let go of half a second after their end.
    runner.run(asyncio.sleep(0.7))
    assert witness.notes == []


TCP = {"call_template_type": "tcp", "host": "127.0.0.1", "port": 4711}
LINES = {**TCP, "framing_strategy": "delimiter", "message_delimiter": "\\n"}
KEY = {"request_data_format": "text", "request_data_template": "SET key UTCP_ARG_word_UTCP_ARG"}
REJECTED: list[tuple[dict[str, Any], str]] = [
    ({**LINES, **KEY}, ATTACK),
    ({**LINES, **KEY, "message_delimiter": "\\r\\n"}, ATTACK),
    ({**LINES, **KEY, "message_delimiter": "\\r\\n"}, "ends with\r"),
    ({**LINES, **KEY, "message_delimiter": "END"}, "xENDy"),
    ({**LINES, **KEY, "message_delimiter": "aa"}, "xa"),
    ({**LINES, **KEY, "message_delimiter": "aa", "request_data_template": "aUTCP_ARG_word_UTCP_ARGa"}, ""),
    ({**LINES, "message_delimiter": "|"}, "a|b"),
    ({**TCP, **KEY}, ATTACK),
    ({**TCP, **KEY}, "a\u2028b"),
    ({**TCP, **KEY, "framing_strategy": "fixed_length", "fixed_message_length": 12}, "12345"),
    ({**TCP, **KEY, "request_data_template": "UTCP_ARG_word_UTCP_ARG"}, ""),
    ({**TCP, **KEY, "call_template_type": "udp"}, "1|c\nadmin:1|c"),
    ({"call_template_type": "websocket", "url": "ws://127.0.0.1:4711/", "message": "SEND UTCP_ARG_word_UTCP_ARG"}, ATTACK),
]  # fmt: skip


@for_each(("template", "word"), REJECTED, ids=[str(n) for n in range(len(REJECTED))])
async def test_an_argument_that_could_end_its_message_is_rejected_with_a_pointer_to_it(
    template: dict[str, Any], word: str
) -> None:
    async with adapters_on_loopback() as adapters:
        adapter = adapters[template["call_template_type"]]
        # Nobody listens there: it is rejected before anything is tried.
        for action in (adapter.call, _described(adapter)):
            with pytest.raises(InvalidArguments) as caught:
                await action(call_of(adapter, template, {"word": word}))
            assert [fault.pointer for fault in caught.value.errors] == ["/word"]


def _described(adapter: Any) -> Any:
    async def describe(call: Any) -> None:
        adapter.describe(call)

    return describe


SENT: list[tuple[dict[str, Any], str]] = [
    ({**LINES, "request_data_format": "json"}, "two\nlines"),
    ({**LINES, **KEY, "request_data_template": '{"key": "UTCP_ARG_word_UTCP_ARG"}'}, "two\nlines"),
    ({**LINES, **KEY, "message_delimiter": "\\x00"}, "two\nlines"),
    ({**TCP, **KEY, "framing_strategy": "length_prefix"}, "two\nlines\x00"),
    ({**LINES, **KEY, "request_data_template": "A\nB UTCP_ARG_word_UTCP_ARG"}, "a\ttab"),
    *(({**template, "enforce_message_boundaries": False}, word) for template, word in REJECTED[:-1]),
]


@for_each(("template", "word"), SENT, ids=[str(n) for n in range(len(SENT))])
async def test_what_ends_no_message_is_sent_and_so_is_all_where_the_template_allows_it(
    template: dict[str, Any], word: str
) -> None:
    async with adapters_on_loopback() as adapters:
        adapter = adapters[template["call_template_type"]]
        shown = adapter.describe(call_of(adapter, template, {"word": word}))["body"]
        text = shown if isinstance(shown, str) else next(iter(shown.values()))
        assert word in text or json.dumps(word)[1:-1] in text


def test_the_opt_out_is_stored_only_where_it_is_given() -> None:
    assert "enforce_message_boundaries" not in compile_template(TCP, TcpTemplate).stored()
    stored = compile_template({**TCP, "enforce_message_boundaries": False}, TcpTemplate).stored()
    assert stored["enforce_message_boundaries"] is False
    with pytest.raises(InvalidInput):
        compile_template({**TCP, "enforce_message_boundaries": "perhaps"}, TcpTemplate)
