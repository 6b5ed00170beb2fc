"""An argument never changes how many messages an upstream gets, nor where they begin and end."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from app.errors import InvalidArguments, InvalidInput
from app.outbound.guard import Guard
from app.outbound.http import Engine
from app.protocols.base import Means
from app.protocols.registry import ADAPTERS, Adapters
from app.security.masking import Masker
from tests.protocols.calling import call_of
from tests.protocols.kits.all import settings as operator_settings
from tests.protocols.witnesses import WITNESSES, Place, Witness

ATTACK = "x\nFLUSHALL\nSET admin 1"
PIECES = [
    "\n", "\r\n", "\r", "\x00", "\t", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\x03", "END", "EN", "|", "a", "aa", "}", "}}",
    '"', "'", "\\", "\\n", "{", ",", ";", "&", "=", "?", "#", "/", "../", "%0d%0a", "%00", "-", "--", "--word", "$CMD_0_OUTPUT",
    "UTCP_ARG_other_UTCP_ARG", " HTTP/1.1\r\n", "\r\nX-Injected: 1", "\r\n\r\nGET /b HTTP/1.1\r\nHost: b\r\n\r\n", "; b=1",
    "é", "\U0001f600", "x" * 70,
]  # fmt: skip
WORDS = st.lists(st.sampled_from(PIECES) | st.text(max_size=4), min_size=1, max_size=5).map("".join)
SLOW = {"cli": 6, "tcp": 25}


def test_every_protocol_has_a_witness() -> None:
    assert set(WITNESSES) == set(ADAPTERS)


@contextlib.asynccontextmanager
async def running(protocol: str, folder: Path) -> AsyncIterator[tuple[Witness, Any]]:
    witness = WITNESSES[protocol]()
    engine = Engine(Guard(allow_networks=["127.0.0.0/8"]))
    adapters = Adapters(Means(engine, engine.network, Masker(), operator_settings()))
    try:
        async with witness.serve(folder):
            yield witness, adapters[protocol]
            await adapters.aclose()
            await engine.aclose()
    finally:
        await adapters.aclose()
        await engine.aclose()


async def sent(witness: Witness, adapter: Any, place: Place, word: str) -> list[Any]:
    """What the upstream noted of a call; raises what the adapter raises."""
    result = await adapter.call(call_of(adapter, place.template, place.arguments(word)))
    try:
        await result.read()
    finally:
        await result.aclose()
    return await witness.noted()


@pytest.mark.parametrize("protocol", sorted(ADAPTERS))
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
    @example("")
    def attacked(word: str) -> None:
        runner.run(one(word))

    attacked()
    # Programs are let go of half a second after their end.
    runner.run(asyncio.sleep(0.7))
    assert witness.notes == []
