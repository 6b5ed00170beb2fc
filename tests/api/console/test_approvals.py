"""The pages of approvals: what is decided about, who may decide, and several decisions at once."""

from typing import Any

import pytest

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


def test_call_is_shown_with_arguments_and_request_and_secrets_masked(gateway, agent, lend):
    approval = wait_for(gateway, agent, lend, "the moon")
    with gateway.client() as pages:
        shown = pages.get(f"/console/approvals/{approval}")
        listed = pages.get("/console/approvals")
    for html in (shown.text, listed.text):
        assert "the moon" in html
        assert SECRET not in html
    assert "/echo?q=the%20moon" in shown.text or "/echo" in shown.text
    assert "Lends." in shown.text
    assert "Approve and make the call" in shown.text
    assert 'class="nav-count"' in listed.text


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
