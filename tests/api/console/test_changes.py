"""The page of changes: filters in the URL, values before and after, export, and the live tail."""

import csv
import io
import json
from datetime import UTC, datetime, timedelta
from html import unescape

from tests.harness.gateway import RunningGateway


def change_key(gateway: RunningGateway, name: str) -> str:
    """Make a key, and change its name and scopes; return its id."""
    with gateway.client() as client:
        made = client.post("/keys", json={"name": name, "scopes": ["tools:read"]}).json()
        patch = {"name": f"{name} <b>\u202enew", "scopes": ["tools:read", "tools:call"]}
        assert client.patch(f"/keys/{made['id']}", json=patch).status_code == 200
    return str(made["id"])


def test_values_before_and_after_are_shown_and_escaped(gateway):
    key_id = change_key(gateway, "changed name")
    with gateway.client() as pages:
        html = pages.get("/console/changes", params={"object_name": key_id}).text
    assert "<ins>" in html
    assert "tools:call" in html
    assert "&lt;b&gt;" in html
    assert "\u202e" not in html
    assert 'title="U+202E RIGHT-TO-LEFT OVERRIDE"' in html
    assert f'href="/console/keys/{key_id}"' in html


def test_filters_are_those_of_the_url(gateway):
    key_id = change_key(gateway, "filtered")
    since = (datetime.now(UTC) - timedelta(minutes=5)).strftime("%Y-%m-%dT%H:%M")
    with gateway.client() as pages:
        both = pages.get("/console/changes", params={"object_name": key_id, "since": since}).text
        assert both.count('<tr id="change-') == 2
        created = pages.get("/console/changes", params={"object_name": key_id, "action": "created"}).text
        assert created.count('<tr id="change-') == 1
        before = pages.get("/console/changes", params={"object_name": key_id, "until": since})
        assert "No change matches" in before.text
        wrong = pages.get("/console/changes", params={"since": "yesterday", "actor": "abc"})
    assert wrong.status_code == 422
    assert 'value="yesterday"' in wrong.text


def test_api_filters_events_by_action_and_time(gateway):
    key_id = change_key(gateway, "by time")
    with gateway.client() as client:
        events = client.get("/events", params={"object_name": key_id, "sort": "at"}).json()["items"]
        (updated,) = client.get("/events", params={"object_name": key_id, "action": "updated"}).json()[
            "items"
        ]
        assert updated["id"] == events[1]["id"]
        for name, expected in (("since", [events[1]["id"]]), ("until", [events[0]["id"]])):
            found = client.get("/events", params={"object_name": key_id, name: events[1]["at"]}).json()[
                "items"
            ]
            assert [one["id"] for one in found] == expected


def test_export_has_the_selected_events_and_no_formula(gateway):
    key_id = change_key(gateway, "=1+1")
    with gateway.client() as pages:
        response = pages.get("/console/changes.csv", params={"object_name": key_id})
    assert response.headers["content-type"].startswith("text/csv")
    assert "attachment" in response.headers["content-disposition"]
    rows = list(csv.DictReader(io.StringIO(response.text)))
    assert [row["action"] for row in rows] == ["updated", "created"]
    assert json.loads(rows[0]["detail"])["before"]["name"] == "=1+1"


def test_restricted_key_exports_only_its_own_events(gateway):
    with gateway.client() as client:
        scopes = ["calls:read", "keys:manage"]
        made = client.post("/keys", json={"name": "restricted", "scopes": scopes, "providers": ["nope"],
                                          "allow_unknown_providers": True}).json()  # fmt: skip
        other = client.get("/me").json()["id"]
    with gateway.client(made["key"]) as client:
        assert len(client.get("/events.csv").text.splitlines()) == 1
        assert len(client.get("/events.csv", params={"actor": other}).text.splitlines()) == 1
        one = {
            "name": "own",
            "scopes": ["calls:read"],
            "providers": ["nope"],
            "allow_unknown_providers": True,
        }
        assert client.post("/keys", json=one).status_code == 201
        assert len(client.get("/events.csv").text.splitlines()) == 2


def row_with(lines, text):
    """Return the line with a text; fail where there is none before the third heartbeat."""
    heartbeats = 0
    for line in lines:
        if text in line:
            return line
        heartbeats += line.startswith(":")
        assert heartbeats < 3
    raise AssertionError("The stream has ended.")


def test_new_changes_are_streamed_as_rows(gateway):
    with gateway.client() as pages:
        html = pages.get("/console/changes", params={"action": "created", "follow": "1"}).text
        source = unescape(html.partition('<live-tail src="')[2].partition('"')[0])
        before = change_key(gateway, "after the page")
        with pages.stream("GET", source) as tail:
            lines = tail.iter_lines()
            assert row_with(lines, before).startswith("data: ")
            assert row_with(lines, change_key(gateway, "streamed")).startswith("data: ")
        with pages.stream("GET", "/console/changes/stream", params={"action": "created"}) as tail:
            lines = tail.iter_lines()
            assert next(lines) == ": heartbeat"
            assert row_with(lines, change_key(gateway, "after the heartbeat")).startswith("data: ")


def test_key_without_the_scope_sees_why(gateway):
    with gateway.client() as client:
        made = client.post("/keys", json={"name": "no events", "scopes": ["tools:read"]}).json()
    with gateway.client(made["key"]) as pages:
        for path in ("/console/changes", "/console/changes.csv"):
            response = pages.get(path)
            assert response.status_code == 403
            assert "calls:read" in response.text
