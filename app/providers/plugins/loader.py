"""The entries of the plugin catalogue, read from the files beside this module when they are first asked for.

The start of the gateway reads none of them. A list or a search reads all in a thread, each file once.
"""

import asyncio
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

import structlog
from pydantic import ValidationError

from app.core.errors import (
    GatewayError,
    InvalidDocument,
    NotFound,
    TooLarge,
    not_found,
)
from app.core.suggestions import find_similar
from app.formats.archive import DocumentLimits
from app.openapi.reading.yaml_load import load_yaml
from app.providers.plugins.entry import PLUGIN_NAME, PluginEntry

CATALOGUE: Final = Path(__file__).parent / "catalogue"
_LIMITS: Final = DocumentLimits(yaml_size=1 << 20, yaml_nodes=50_000)
_NAME: Final = re.compile(PLUGIN_NAME)
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _ReadEntry:
    """An entry, and what tells whether its file has changed since it was read."""

    path: Path
    stamp: tuple[int, int]
    entry: PluginEntry


class PluginCatalogue:
    """The entries in folders, `NAME.yaml` each: those of the operator, which replace shipped ones of the same
    name. A file that has changed is read again.
    """

    def __init__(self, *folders: Path) -> None:
        self._folders = (*folders, CATALOGUE)
        self._entries: dict[str, _ReadEntry] = {}
        self._all: Mapping[str, PluginEntry] = MappingProxyType({})
        self._lock = asyncio.Lock()

    def names(self) -> tuple[str, ...]:
        """Return the names of all entries, in order; no file is opened."""
        return tuple(sorted(self._paths()))

    def read(self, name: str) -> PluginEntry:
        """Return an entry, read from its file where that is new; raise NotFound, and InvalidDocument for a
        file that is no entry.
        """
        if _NAME.fullmatch(name) is None:
            raise NotFound("There is no plugin of this name.")
        for folder in self._folders:
            path = folder / f"{name}.yaml"
            try:
                found = path.stat()
            except OSError:
                continue
            known, stamp = self._entries.get(name), (found.st_mtime_ns, found.st_size)
            if known is None or (known.path, known.stamp) != (path, stamp):
                known = _ReadEntry(path, stamp, parse_entry(path.read_bytes(), name=name))
                self._entries[name] = known
            return known.entry
        raise not_found(f"There is no plugin {name}.", find_similar(name, self.names()))

    async def get(self, name: str) -> PluginEntry:
        """Return an entry; raise what `read` raises."""
        return await asyncio.to_thread(self.read, name)

    async def all(self) -> Mapping[str, PluginEntry]:
        """Return all entries by name, in order: the same object where nothing has changed. A file that is no
        entry is logged, and left out.
        """
        async with self._lock:
            found = await asyncio.to_thread(self._read_all)
            if list(map(id, found.values())) != list(map(id, self._all.values())):
                self._all = MappingProxyType(found)
        return self._all

    def _read_all(self) -> dict[str, PluginEntry]:
        found = {}
        for name in self.names():
            try:
                found[name] = self.read(name)
            except (InvalidDocument, TooLarge, OSError) as error:
                reason = error.detail if isinstance(error, GatewayError) else error.strerror
                _log.warning("an entry of the plugin catalogue cannot be used", plugin=name, reason=reason)
        return found

    def _paths(self) -> set[str]:
        return {
            one.stem
            for folder in self._folders
            for one in folder.glob("*.yaml")
            if _NAME.fullmatch(one.stem) is not None
        }


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
