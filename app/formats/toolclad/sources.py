"""What is registered: one manifest, or a zip archive with several, types of the project and MCP servers."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from app.core.errors import FieldError, InvalidDocument
from app.core.text import pointer
from app.formats.archive import DocumentLimits, is_archive, list_names, unpack
from app.formats.toolclad.argument_types import CustomType
from app.formats.toolclad.manifest import Manifest, read_manifest, read_project
from app.formats.toolclad.tools import MANUAL_VERSION, build_tool

SUFFIX: Final = ".clad.toml"
PROJECT_FILE: Final = "toolclad.toml"
SERVER_FILES: Final = ("mcp.json", ".mcp.json")
MAX_MANIFESTS: Final = 1_000
MEDIA_TYPES: Final = frozenset({"application/toml", "text/x-toml", "text/toml", "application/x-toml"})
_LIMITS: Final = DocumentLimits(size=32 << 20)
_HEAD: Final = 64 << 10
# After comments, TOML begins with a table or a key. A table [tool], or one below it, begins a line.
_FIRST_LINE: Final = re.compile(rb"(?:[ \t]*(?:#[^\n]*)?\r?\n)*+[ \t]*(?:\[[^\n]*\]|[A-Za-z0-9_.\"' -]+=)")
_TOOL_TABLE: Final = re.compile(
    rb"(?m)^[ \t]*\[[ \t]*tool[ \t]*(?:\.[ \t]*[A-Za-z_\"']+[ \t]*)?\][ \t]*(?:#.*)?\r?$"
)


@dataclass(frozen=True, slots=True)
class RejectedManifest:
    """A manifest that cannot be a tool: its file, its name where that could be read, and the error."""

    file: str | None
    error: InvalidDocument


@dataclass(frozen=True, slots=True)
class ManifestManual:
    """Manifests as a UTCP manual, and those that were rejected. `files` are the files of its tools, in order.

    A file is None where the source is a single manifest.
    """

    raw: dict[str, Any]
    files: tuple[str | None, ...]
    notes: tuple[tuple[str, ...], ...]
    rejected: tuple[RejectedManifest, ...] = ()
    ignored: tuple[str, ...] = field(default=())


def is_manifest_source(body: bytes) -> bool:
    """Return whether the bytes are a manifest, or a zip archive that has some."""
    if is_archive(body):
        return any(name.endswith(SUFFIX) for name in list_names(body))
    return is_manifest(body)


def is_manifest(body: bytes) -> bool:
    """Return whether the bytes look like a manifest: TOML with a table `tool`."""
    head = body[:_HEAD].removeprefix(b"\xef\xbb\xbf")
    return _FIRST_LINE.match(head) is not None and _TOOL_TABLE.search(head) is not None


def read_source(body: bytes) -> ManifestManual:
    """Return the tools of a manifest or an archive.

    Raise InvalidDocument for a single manifest that is not valid, for an archive of which none is, and for a
    project file that is not valid; and what `unpack` raises.
    """
    if not is_archive(body):
        manifest = read_manifest(body, {})
        return ManifestManual(_build_manual([build_tool(manifest, {})]), (None,), (manifest.notes,))
    files = unpack(body, limits=_LIMITS)
    manifests = {name: text for name, text in files.items() if name.endswith(SUFFIX)}
    if len(manifests) > MAX_MANIFESTS:
        detail = f"Must have at most {MAX_MANIFESTS} manifests."
        raise InvalidDocument("The archive has too many manifests", errors=[FieldError("", detail)])
    types, servers = _project(files), _read_servers(files)
    read: list[tuple[str, Manifest, dict[str, Any]]] = []
    rejected: list[RejectedManifest] = []
    for name, text in sorted(manifests.items()):
        try:
            manifest = read_manifest(text, types)
            read.append((name, manifest, build_tool(manifest, servers)))
        except InvalidDocument as error:
            rejected.append(RejectedManifest(name, error))
    if not read and rejected:
        raise _join_errors(rejected)
    known = {*manifests, *(name for name in files if _get_basename(name) in (PROJECT_FILE, *SERVER_FILES))}
    return ManifestManual(
        _build_manual([tool for _, _, tool in read]),
        tuple(name for name, _, _ in read),
        tuple(manifest.notes for _, manifest, _ in read),
        tuple(rejected),
        tuple(sorted(files.keys() - known)),
    )


def _build_manual(tools: list[dict[str, Any]]) -> dict[str, Any]:
    return {"utcp_version": MANUAL_VERSION, "tools": tools}


def _get_basename(name: str) -> str:
    return name.rpartition("/")[2]


def _project(files: Mapping[str, bytes]) -> dict[str, CustomType]:
    projects = [name for name in files if _get_basename(name) == PROJECT_FILE]
    if len(projects) > 1:
        errors = [FieldError(pointer("", name), "Give one project file.") for name in projects[1:]]
        raise InvalidDocument("The archive has several project files", errors=errors)
    if not projects:
        return {}
    try:
        return read_project(files[projects[0]])
    except InvalidDocument as error:
        raise _extend_pointers(error, projects[0]) from None


def _read_servers(files: Mapping[str, bytes]) -> Mapping[str, Any]:
    server_files = [name for name in files if _get_basename(name) in SERVER_FILES]
    if not server_files:
        return {}
    name = server_files[0]
    try:
        servers = orjson.loads(files[name])["mcpServers"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        servers = None
    if not isinstance(servers, dict) or len(server_files) > 1:
        detail = 'Give one file with the member "mcpServers", an object.'
        raise InvalidDocument(
            "The MCP servers cannot be read", errors=[FieldError(pointer("", name), detail)]
        )
    return servers


def _extend_pointers(error: InvalidDocument, file: str) -> InvalidDocument:
    errors = [FieldError(pointer("", file) + one.pointer, one.detail, one.expected) for one in error.errors]
    return InvalidDocument(error.detail, errors=errors)


def _join_errors(rejected: list[RejectedManifest]) -> InvalidDocument:
    """Return one error for an archive of which no manifest can be read."""
    errors = [one for each in rejected[:50] for one in _extend_pointers(each.error, each.file or "").errors]
    return InvalidDocument("None of the manifests can be a tool", errors=errors[:50])
