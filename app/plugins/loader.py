"""The entries of the plugin catalogue, read from the files beside this module when they are first asked for.

The start of the gateway reads none of them. A list or a search reads all, once per process and in a thread.
"""

import asyncio
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

from pydantic import ValidationError

from app.errors import InvalidDocument, NotFound, not_found
from app.openapi.model import DocumentLimits
from app.openapi.yaml_load import load_yaml
from app.plugins.entry import PLUGIN_NAME, PluginEntry
from app.suggestions import closest

CATALOGUE: Final = Path(__file__).parent / "catalogue"
_LIMITS: Final = DocumentLimits(yaml_size=1 << 20, yaml_nodes=50_000)
_NAME: Final = re.compile(PLUGIN_NAME)


class PluginCatalogue:
    """The entries in a folder, `NAME.yaml` each."""

    def __init__(self, folder: Path = CATALOGUE) -> None:
        self._folder = folder
        self._entries: dict[str, PluginEntry] = {}
        self._all: Mapping[str, PluginEntry] | None = None
        self._lock = asyncio.Lock()

    def names(self) -> tuple[str, ...]:
        """Return the names of all entries, in order; no file is opened."""
        return tuple(sorted(one.stem for one in self._folder.glob("*.yaml")))

    def read(self, name: str) -> PluginEntry:
        """Return an entry, read from its file if that is the first time; raise NotFound."""
        entry = self._entries.get(name)
        if entry is None:
            if _NAME.fullmatch(name) is None:
                raise NotFound("There is no plugin of this name.")
            try:
                text = (self._folder / f"{name}.yaml").read_bytes()
            except FileNotFoundError:
                raise not_found(f"There is no plugin {name}.", closest(name, self.names())) from None
            entry = self._entries[name] = parse_entry(text, name=name)
        return entry

    async def get(self, name: str) -> PluginEntry:
        """Return an entry; raise NotFound."""
        entry = self._entries.get(name)
        return await asyncio.to_thread(self.read, name) if entry is None else entry

    async def all(self) -> Mapping[str, PluginEntry]:
        """Return all entries by name, in order."""
        async with self._lock:
            if self._all is None:
                self._all = await asyncio.to_thread(self._read_all)
        return self._all

    def _read_all(self) -> Mapping[str, PluginEntry]:
        return MappingProxyType({name: self.read(name) for name in self.names()})


@lru_cache(maxsize=1)
def shipped_catalogue() -> PluginCatalogue:
    """Return the catalogue of this distribution."""
    return PluginCatalogue()


def parse_entry(text: bytes, *, name: str) -> PluginEntry:
    """Return the entry in a file; raise InvalidDocument where it is not one, or has another name."""
    raw = load_yaml(text, limits=_LIMITS, warn=lambda _pointer, _detail: None)
    try:
        entry = PluginEntry.model_validate(raw)
    except ValidationError as error:
        raise InvalidDocument(
            f"The entry {name} of the plugin catalogue is not valid: {_texts(error)}"
        ) from None
    if entry.name != name:
        raise InvalidDocument(f"The entry {name} of the plugin catalogue has the name {entry.name}.")
    return entry


def _texts(error: ValidationError) -> str:
    found: Iterable[str] = (
        f"/{'/'.join(map(str, one['loc']))}: {one['msg']}"
        for one in error.errors(include_url=False, include_context=False, include_input=False)
    )
    return "; ".join(found)
