"""Two gateways in the process of the test, on one database and one Redis, and their executors."""

import asyncio
import contextlib
from contextlib import asynccontextmanager

import pytest

from app.core.errors import Unauthenticated
from tests.harness.application import run_application
from tests.harness.ubp_peers import connected


@pytest.fixture(scope="module")
async def pair(applications):
    """Two applications on one database, which is empty at first."""
    first = await applications.get()
    async with run_application(first.services.settings) as second:
        yield first, second


_keys = {}


async def executor_key(application):
    """The text of the key that the executors of a database share: a name belongs to one key."""
    url = application.settings.database_url.get_secret_value()
    with contextlib.suppress(KeyError, Unauthenticated):
        await application.services.keys.verify(_keys[url])
        return _keys[url]
    client = await application.client("executors:connect")
    _keys[url] = client.headers["authorization"].removeprefix("Bearer ")
    return _keys[url]


@asynccontextmanager
async def executor_of(application, *scopes, **limits):
    """A peer that has registered nothing yet: with the key of executors, or with a new one of these scopes and limits."""
    if scopes or limits:
        client = await application.client(*(scopes or ("executors:connect",)), **limits)
        key = client.headers["authorization"].removeprefix("Bearer ")
    else:
        key = await executor_key(application)
    async with connected(application, key) as peer:
        yield peer


def defined(name, description="A command.", **schema):
    """The definition of a tool; with `schema`, that of its arguments."""
    tool = {"name": name, "description": description, "parameters": []}
    return {**tool, "jsonSchema": {"type": "object", **schema}} if schema else tool


async def until(condition):
    """Wait until a coroutine function returns something true, and return it; the time limit of the test ends
    what never does.
    """
    while not (found := await condition()):  # noqa: ASYNC110 - what another worker knows has no event.
        await asyncio.sleep(0.02)
    return found
