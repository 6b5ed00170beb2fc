"""The registration pipeline below the API: a real reader of sources, and what a registration is about."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from app.credentials.permissions import UNBOUNDED
from app.models import Variable, new_id
from app.outbound.credentials import CredentialResolver
from app.outbound.guard import Guard
from app.outbound.http import Engine
from app.outbound.oauth2 import TokenEndpoint
from app.outbound.tokens import TokenCache
from app.protocols.base import AdapterContext
from app.protocols.registry import Adapters
from app.redis_client import Cache, connect
from app.registration.context import ImportContext
from app.registration.converter import Converter
from app.registration.fetch import Fetcher
from app.registration.source_reader import SourceReader
from app.security.masking import Masker
from app.security.vault import KeyRing, Vault
from app.settings import Settings


@pytest.fixture(scope="module")
def vault() -> Vault:
    vault = Vault(KeyRing.parse(KeyRing.generate("k")))
    vault.load([vault.new_data_key("data"), vault.new_data_key("digest")])
    return vault


@pytest.fixture
async def reader(vault: Vault, redis_url: str) -> AsyncIterator[SourceReader]:
    """A reader that may fetch from loopback."""
    settings = Settings(_env_file=None)
    engine, masker, redis = (
        Engine(Guard(allow_networks=["127.0.0.0/8"])),
        Masker(),
        connect(redis_url, timeout=2),
    )
    adapters = Adapters(AdapterContext(engine, engine.network, masker, settings))
    tokens = TokenCache(vault, TokenEndpoint(engine), Cache(redis))
    fetcher = Fetcher(adapters, CredentialResolver(vault, tokens, masker), 1 << 20)
    converter = Converter(settings)
    yield SourceReader(settings, vault, fetcher, converter)
    await converter.aclose()
    await tokens.aclose()
    await adapters.aclose()
    await redis.aclose()
    await engine.aclose()


@pytest.fixture
def context() -> Callable[..., ImportContext]:
    """`context(**fields)` is about a provider `pets` without variables or credentials."""

    def make(*variables: Variable, **fields: Any) -> ImportContext:
        given = {"environment": {}, "options": {}, "reach": UNBOUNDED, **fields}
        return ImportContext(id=new_id(), name="pets", variables=variables, **given)

    return make
