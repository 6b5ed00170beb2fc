"""The pages of approvals: what is decided about, who may decide, and several decisions at once."""

import asyncio
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from app.storage.database import asyncpg_dsn
from tests.harness.gateway import RunningGateway
from tests.harness.upstream import Upstream, upstream

SECRET = "canary-of-an-argument-4711"


@pytest.fixture(scope="module")
def site() -> Any:
    """An upstream that sends back what it got."""
    with upstream() as running:
        yield running


@pytest.fixture(scope="module")
def lend(gateway: RunningGateway, site: Upstream) -> str:
    """The name of a tool that requires approval."""
    inputs = {
        "type": "object",
        "properties": {"q": {"type": "string"}, "pin": {"type": "string", "writeOnly": True}},
    }
    template = {"call_template_type": "http", "http_method": "GET", "url": f"{site.url}/echo"}
    tool = {
        "provider": "waits",
        "name": "lend",
        "description": "Lends.",
        "inputs": inputs,
        "call_template": template,
    }
    with gateway.client() as client:
        made = client.post("/tools", json=tool)
        assert made.status_code == 201, made.text
        assert client.patch("/tools/waits.lend", json={"requires_approval": True}).status_code == 200
    return "waits.lend"


def key(gateway: RunningGateway, *scopes: str) -> str:
    with gateway.client() as client:
        response = client.post("/keys", json={"name": " ".join(scopes), "scopes": list(scopes)})
    assert response.status_code == 201, response.text
    return str(response.json()["key"])


@pytest.fixture(scope="module")
def agent(gateway: RunningGateway) -> str:
    """A key that calls tools."""
    return key(gateway, "tools:read", "tools:call")


def wait_for(gateway: RunningGateway, agent: str, tool: str, q: str) -> str:
    with gateway.client(agent) as client:
        response = client.post(f"/tools/{tool}/call", json={"q": q, "pin": SECRET})
    assert response.status_code == 202, response.text
    return str(response.json()["approval"]["id"])


def execute(gateway: RunningGateway, statement: str, *values: Any) -> None:
    """Execute a statement in the gateway's database."""

    async def connect() -> None:
        connection = await asyncpg.connect(asyncpg_dsn(gateway.database_url))
        try:
            await connection.execute(statement, *values)
        finally:
            await connection.close()

    asyncio.run(connect())


def test_call_is_shown_with_arguments_and_request_and_secrets_masked(gateway, agent, lend):
    approval = wait_for(gateway, agent, lend, "the moon")
    with gateway.client() as pages:
        shown = pages.get(f"/console/approvals/{approval}")
        listed = pages.get("/console/approvals")
    for html in (shown.text, listed.text):
        assert "the moon" in html
        assert SECRET not in html
    assert "/echo?q=the%20moon&amp;pin=***" in shown.text
    assert "Lends." in shown.text
    assert shown.text.index("2 values are hidden") < shown.text.index("Approve and make the call")
    for html in (shown.text, listed.text):
        assert "/arguments/pin</code>: the tool declares it a secret" in html
    assert "Approve and make the call" in shown.text
    assert 'class="nav-count"' in listed.text


def test_whole_arguments_and_the_request_of_the_stored_ones_are_shown(gateway, agent, lend):
    q = "https://user:pw@bank.example/?to=X&amount=1000000 Bearer abcdefghijklmnop" + "y" * 300 + " the end"
    with gateway.client(agent) as client:
        approval = client.post(f"/tools/{lend}/call", json={"q": q}).json()["approval"]["id"]
    with gateway.client(key(gateway, "approvals:decide")) as pages:
        shown = pages.get(f"/console/approvals/{approval}").text
        listed = pages.get("/console/approvals").text
    for html in (shown, listed):
        assert "user:pw@bank.example/?to=X&amp;amount=1000000 Bearer abcdefghijklmnopyyy" in html
        assert "the end" in html
    assert "Nothing is hidden." in shown
    assert "amount%3D1000000" in shown


def test_a_call_that_would_not_be_made_says_why(gateway, agent, lend):
    approval = wait_for(gateway, agent, lend, "changed")
    with gateway.client() as pages:
        assert pages.patch(f"/tools/{lend}", json={"description": "Lends anything."}).status_code == 200
        shown = pages.get(f"/console/approvals/{approval}").text
        pages.patch(f"/tools/{lend}", json={"description": None})
    assert "The call would not be made: The description" in shown


def test_approval_makes_the_call_and_says_so(gateway, agent, lend):
    approval = wait_for(gateway, agent, lend, "approve me")
    with gateway.client() as pages:
        done = pages.post(
            f"/console/approvals/{approval}", data={"decision": "approve", "comment": "Fine <b>."}
        )
        assert done.status_code == 303
        shown = pages.get(done.headers["location"]).text
        call = pages.get(f"/approvals/{approval}").json()
    assert call["state"] == "executed"
    assert call["comment"] == "Fine <b>."
    assert "Fine &lt;b&gt;." in shown
    assert f"/console/calls/{call['call_id']}" in shown
    assert "Approve and make the call" not in shown


def test_several_are_decided_at_once_and_failures_are_named(gateway, agent, lend):
    first, second, third = (wait_for(gateway, agent, lend, f"many {n}") for n in range(3))
    with gateway.client() as pages:
        done = pages.post(
            "/console/approvals/decide", data={"decision": "reject", "id": [first, second], "comment": "no"}
        )
        assert done.status_code == 303
        assert "Rejected: 2." in pages.get(done.headers["location"]).text
        states = [pages.get(f"/approvals/{one}").json()["state"] for one in (first, second, third)]
        assert states == ["rejected", "rejected", "pending"]
        partly = pages.post("/console/approvals/decide", data={"decision": "reject", "id": [first, third]})
        assert partly.status_code == 409
        assert "1 decision was taken" in partly.text
        assert first in partly.text
        none = pages.post("/console/approvals/decide", data={"decision": "approve"})
        assert none.status_code == 422


def test_what_cannot_be_read_is_not_decided_in_a_list(gateway, agent, lend):
    readable, broken = (wait_for(gateway, agent, lend, f"{word} one") for word in ("whole", "broken"))
    execute(gateway, "UPDATE approvals SET sealed_arguments = 'x' WHERE id = $1", UUID(broken))
    try:
        with gateway.client() as pages:
            assert pages.get(f"/approvals/{broken}").status_code >= 500
            for path in ("/console/approvals", "/console/approvals?state=all"):
                listed = pages.get(path).text
                assert f'name="id" value="{readable}"' in listed, path
                assert broken in listed, path
                assert f'name="id" value="{broken}"' not in listed, path
    finally:
        with gateway.client() as client:
            client.post(f"/approvals/{readable}/reject")
        execute(gateway, "DELETE FROM approvals WHERE id = $1", UUID(broken))


def test_who_requested_it_can_take_it_back_and_nothing_else(gateway, agent, lend):
    approval = wait_for(gateway, agent, lend, "my own")
    with gateway.client(agent) as pages:
        shown = pages.get(f"/console/approvals/{approval}").text
        assert "Take it back" in shown
        assert 'value="approve"' not in shown
        assert 'value="approve"' not in pages.get("/console/approvals").text
        denied = pages.post(f"/console/approvals/{approval}", data={"decision": "approve"})
        assert denied.status_code == 403
        assert pages.post(f"/console/approvals/{approval}", data={"decision": "reject"}).status_code == 303
    with gateway.client() as client:
        assert client.get(f"/approvals/{approval}").json()["state"] == "rejected"


def test_key_without_any_of_the_scopes_sees_no_approvals(gateway):
    with gateway.client(key(gateway, "tools:read")) as pages:
        assert pages.get("/console/approvals").status_code == 403
        assert "/console/approvals" not in pages.get("/console/design").text


def test_unknown_approval_is_not_found(gateway):
    with gateway.client() as pages:
        for name in ("nothing", "01a20d7b-9481-7498-a795-dc8441ee99c7"):
            assert pages.get(f"/console/approvals/{name}").status_code == 404


def test_what_requires_approval_is_listed_and_removed_once_no_tool_has_it(gateway, site, lend):
    path = "/console/approvals/requirements"
    template = {"call_template_type": "http", "http_method": "POST", "url": f"{site.url}/gone"}
    with gateway.client() as pages:
        made = pages.post("/tools", json={"provider": "waits", "name": "gone", "call_template": template})
        assert made.status_code == 201, made.text
        assert pages.patch("/tools/waits.gone", json={"requires_approval": True}).status_code == 200
        [kept] = pages.get("/approval-requirements", params={"q": "/gone"}).json()["items"]
        assert f'href="{path}"' in pages.get("/console/approvals").text
        listed = pages.get(path).text
        assert f"GET {site.url}/echo" in listed
        assert kept["operation"] in listed
        assert kept["operation"] not in pages.get(path, params={"q": "/echo"}).text
        still = pages.post(path, data={"id": kept["id"]})
        assert (still.status_code, "requires approval still" in still.text) == (409, True)
        assert pages.delete("/tools/waits.gone").status_code == 204
        assert pages.post(path, data={"id": "none"}).status_code == 404
        done = pages.post(path, data={"id": kept["id"]})
        assert (done.status_code, done.headers["location"].partition("?")[0]) == (303, path)
        assert kept["operation"] not in pages.get(done.headers["location"]).text
    with gateway.client(key(gateway, "credentials:write")) as other:
        assert path not in other.get("/console/approvals").text
