"""Whatever is registered can be called: templates of every protocol with as few members as possible."""

import itertools
import sys
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from app.protocols.registry import PROTOCOLS
from tests.harness.beside import beside
from tests.harness.gateway import serve
from tests.harness.servers import Pair
from tests.protocols.kits.all import KITS
from tests.protocols.kits.base import Kit, Template, Upstream
from tests.protocols.kits.local import ROOT
from tests.protocols.kits.streams import FOLDER

# Executors connect to the gateway, under the name of their provider: tests/api/agents/ubp calls their tools.
CALLED = [kit for kit in KITS if not PROTOCOLS[kit.protocol].is_connected]
EVERY = pytest.mark.parametrize("kit", CALLED, ids=lambda kit: kit.protocol, scope="module")


@pytest.fixture(scope="module")
def client(servers: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    allowed = {"PROGRAMS": sys.executable, "FILE_FOLDERS": str(FOLDER), "FILESYSTEM_FOLDERS": str(ROOT)}
    with (
        serve(servers, tmp_path_factory.mktemp("gateway"), **allowed) as gateway,
        gateway.client(timeout=60) as made,
    ):
        yield made


@pytest.fixture(scope="module")
def peer(kit: Kit) -> Iterator[Upstream]:
    with beside(kit.serve()) as running:  # type: ignore[arg-type]
        yield running  # type: ignore[misc]


def minimal_templates(kit: Kit, upstream: Upstream) -> list[Template]:
    """Return the templates of `echo` that have all members which the protocol's model or this peer requires, and each
    choice of the others."""
    whole = kit.template(upstream, "echo")
    fields = PROTOCOLS[kit.protocol].template.model_fields
    required = {
        "call_template_type",
        *kit.peer_members,
        *(n for n, one in fields.items() if one.is_required()),
    }
    optional = [member for member in whole if member not in required]
    choices = itertools.chain.from_iterable(
        itertools.combinations(optional, count) for count in range(len(optional) + 1)
    )
    return [
        {member: whole[member] for member in whole if member in required or member in chosen}
        for chosen in choices
    ]


def inputs_of(kit: Kit) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {} for name in kit.arguments()}}


@EVERY
def test_each_tool_that_is_registered_can_be_called(client: httpx2.Client, kit: Kit, peer: Upstream) -> None:
    templates = minimal_templates(kit, peer)
    registered = 0
    for number, template in enumerate(templates):
        provider = f"{kit.protocol}-{number}"
        body = {"provider": provider, "name": "echo", "call_template": template, "inputs": inputs_of(kit)}
        made = client.post("/tools", json=body)
        if made.status_code == 422:
            at = [error["pointer"] for error in made.json().get("errors", ())]
            assert at, (template, made.text)
            assert all(one.startswith("/call_template") for one in at), (template, made.text)
            continue
        assert made.status_code == 201, (template, made.text)
        registered += 1
        called = client.post(f"/tools/{provider}.echo/call", json=kit.arguments())
        assert called.status_code == 200, (template, called.text)
    assert registered


@EVERY
def test_each_tool_of_a_manual_can_be_called_or_is_skipped_with_a_reason(
    client: httpx2.Client, kit: Kit, peer: Upstream
) -> None:
    registered = 0
    for number, template in enumerate(minimal_templates(kit, peer)):
        provider = f"manual-{kit.protocol}-{number}"
        tool = {"name": "echo", "inputs": inputs_of(kit), "tool_call_template": template}
        manual = {"utcp_version": "1.0.1", "tools": [tool]}
        source = {"name": provider, "source": {"manual": manual}, "options": {"allow_empty": True}}
        made = client.post("/providers", json=source)
        assert made.status_code == 201, (template, made.text)
        (outcome,) = made.json()["report"]["operations"]
        if outcome["outcome"] == "skipped":
            assert outcome["reason"], template
            continue
        registered += 1
        called = client.post(f"/tools/{provider}.echo/call", json=kit.arguments())
        assert called.status_code == 200, (template, called.text)
    assert registered
