"""The one list of protocols."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from app.outbound.http import Engine
from app.protocols.base import Adapter
from app.protocols.http import HttpAdapter
from app.security.masking import Masker

ADAPTERS = (HttpAdapter,)


def build_adapters(engine: Engine, masker: Masker) -> Mapping[str, Adapter[Any]]:
    """One adapter of each protocol, by its `call_template_type`."""
    return MappingProxyType({adapter.name: adapter(engine, masker) for adapter in ADAPTERS})
