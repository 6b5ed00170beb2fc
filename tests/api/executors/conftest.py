"""Two gateways in the process of the test, on one database and one Redis, and their executors."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from app.security.vault import KeyRing
from app.settings import Settings
from tests.harness.application import run_application
from tests.harness.ubp_peers import connected
from tests.stored import clear


@pytest.fixture(scope="module")
async def pair(database_url, redis_url):
    """Two applications on one database, which is empty at first."""
    settings = Settings(
        _env_file=None,
        database_url=database_url,
        redis_url=redis_url,
        sealing_keys=KeyRing.generate("test"),
        log_level="error",
    )
    async with run_application(settings) as first, run_application(settings) as second:
        await clear(first.services.database)
        await second.services.feed.catch_up()
        yield first, second


@asynccontextmanager
async def executor_of(application, *scopes, **limits):
    """A peer with a new key, by default one of an executor, that has registered nothing yet."""
    client = await application.client(*(scopes or ("executors:connect",)), **limits)
    async with connected(application, client.headers["authorization"].removeprefix("Bearer ")) as peer:
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
