"""For each key an action is shown if and only if the API allows it: what is hidden is rejected, and changes nothing."""

import asyncio
import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

import asyncpg
import httpx2
import pytest

from app.storage.database import asyncpg_dsn
from tests.browser.console.pages import POST_PATHS, Form, Site, read_site
from tests.browser.console.population import KEYS, Populated, populate, upstreams
from tests.harness.gateway import serve

UNGUARDED = frozenset({"/console/language", "/console/sign-in", "/console/sign-out", "/console/confirm"})
"""Forms that are no operation of the API: anybody may submit them."""
NOTHING_SEEN = frozenset({"/console/add/read-only"})
"""Forms that act on what the key sees, here nothing: that they have no effect is compared."""
pytestmark = pytest.mark.xdist_group("rights")
RECORDS = frozenset(
    {
        "calls", "call_records", "events", "changes", "console_sessions", "sessions", "sign_in_tokens",
        "key_usage", "alembic_version",
    }
)  # fmt: skip
"""Tables that grow by being asked, not by being changed: they are not compared."""
BY_POWER = ("reader", "toolset", "caller", "auditor", "keys", "providers", "admin")
"""The keys, those that change most last, because what one changes the next one finds changed."""
LIMITED = tuple(name for name in KEYS if name != "admin")
Action = tuple[str, str, str]


@pytest.fixture(scope="module")
def guarded(servers, tmp_path_factory) -> Iterator[Populated]:
    """A gateway of this module's own, because its tests try to change it."""
    folder = tmp_path_factory.mktemp("guarded")
    with upstreams(folder) as running, serve(servers, folder, CALL_LOG_BODIES="all") as gateway:
        yield populate(gateway, running, tools=0)


@pytest.fixture(scope="module")
def changed(servers, tmp_path_factory) -> Iterator[Populated]:
    """Another one, which they change."""
    folder = tmp_path_factory.mktemp("changed")
    with upstreams(folder) as running, serve(servers, folder, CALL_LOG_BODIES="all") as gateway:
        yield populate(gateway, running, tools=0)


def read_as(populated: Populated, sign_in: Any, name: str) -> Site:
    """Return the pages as a key sees them."""
    with sign_in.client(populated.gateway, populated.keys[name]) as client:
        return read_site(client, populated.addresses[name])


@pytest.fixture(scope="module")
def sites(guarded, sign_in) -> Mapping[str, Site]:
    """The pages as each key sees them."""
    return {name: read_as(guarded, sign_in, name) for name in KEYS}


async def _state(dsn: str) -> dict[str, str]:
    connection = await asyncpg.connect(asyncpg_dsn(dsn))
    try:
        tables = await connection.fetch(
            "SELECT c.relname AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname = 'public' AND c.relkind = 'r'"
        )
        found = {}
        for table in tables:
            name = table["name"]
            if any(name == one or name.startswith((f"{one}_", "call_", "stat")) for one in RECORDS):
                continue
            # Once a minute the gateway stores when keys and credentials were last used.
            rows = await connection.fetch(
                f"SELECT (to_jsonb(t) - 'last_used_at')::text AS row FROM \"{name}\" t"
            )
            texts = sorted(row["row"] for row in rows)
            found[name] = hashlib.sha256("\n".join(texts).encode()).hexdigest()
        return found
    finally:
        await connection.close()


def state_of(populated: Populated) -> dict[str, str]:
    """Return a digest of each table whose rows are what operators have made."""
    return asyncio.run(_state(populated.gateway.database_url))


def submit(client: httpx2.Client, form: Form) -> httpx2.Response:
    """Submit a form as it is, every question answered: effects are confirmed, and names are typed."""
    data = {**form.data(), "confirmed": ["1"]}
    name = unquote(urlsplit(form.action).path.split("/")[-2])
    data = {field: [name] if field == "typed" else values for field, values in data.items()}
    if form.is_multipart:
        parts = [(field, (None, value)) for field, values in data.items() for value in values]
        return client.post(form.action, files=parts)
    return client.post(form.action, data=data)


def is_denied(response: httpx2.Response, form: Form) -> bool:
    """Return whether the API has rejected the key, or has hidden the resource from it.

    Some pages show the API's rejection beside the form, or one for each part of a batch. A form that only leads
    to its own page with the fields in the URL has asked nothing of the API.
    """
    location = urlsplit(response.headers.get("location", ""))
    is_filter = location.path == urlsplit(form.action).path and "notice=" not in location.query
    return (
        response.status_code in (403, 404)
        or (response.status_code == 409 and 'class="problem"' in response.text)
        or bool(re.search(r'class="problem".{0,3000}\bscopes?\b', response.text, re.DOTALL))
        or (response.status_code == 303 and is_filter)
    )


def test_the_administrator_is_shown_a_form_for_each_route(sites):
    shown = {template for template, _, _ in sites["admin"].actions()}
    # Forms that script makes, and steps of a form that an earlier step shows, are tried with no fields.
    unknown = [path for path in POST_PATHS if path not in shown and path not in UNGUARDED]
    assert len(unknown) <= len(POST_PATHS) / 2, unknown


def guarded_actions(site: Site) -> dict[Action, Form]:
    """Return the actions that need a right."""
    return {action: form for action, form in site.actions().items() if action[0] not in UNGUARDED}


@pytest.mark.parametrize("name", LIMITED)
def test_what_is_not_shown_is_rejected_and_changes_nothing(name, guarded, sites, sign_in):
    shown = guarded_actions(sites[name])
    hidden = {action: form for action, form in guarded_actions(sites["admin"]).items() if action not in shown}
    assert hidden, "the key sees everything that the administrator sees"
    before = state_of(guarded)
    with sign_in.client(guarded.gateway, guarded.keys[name]) as client:
        responses = {action: submit(client, form) for action, form in hidden.items()}
    accepted = {
        action: (response.status_code, response.headers.get("location"))
        for action, response in responses.items()
        if action[0] not in NOTHING_SEEN and not is_denied(response, hidden[action])
    }
    assert accepted == {}
    assert state_of(guarded) == before


@pytest.mark.parametrize("name", BY_POWER)
def test_what_is_shown_is_allowed(name, changed, sign_in):
    actions = guarded_actions(read_as(changed, sign_in, name))
    # What deletes is tried last, so that the others have something to act on.
    order = sorted(actions, key=lambda one: any(word in str(one) for word in ("delete", "revoke", "disable")))
    denied = {}
    with sign_in.client(changed.gateway, changed.keys[name]) as client:
        for action in order:
            response = submit(client, actions[action])
            if response.status_code == 403:
                denied[action] = actions[action].action
    assert denied == {}


@pytest.mark.parametrize("name", KEYS)
def test_links_lead_to_pages_that_the_key_may_see(name, sites):
    site = sites[name]
    forbidden = [address for address, status in site.statuses.items() if status == 403]
    linked = {
        forbidden_address: [
            address for address, html in site.html.items()
            if site.statuses[address] == 200 and f'href="{forbidden_address}"' in html.replace("&amp;", "&")
        ]
        for forbidden_address in forbidden
    }  # fmt: skip
    assert {address: pages for address, pages in linked.items() if pages} == {}
