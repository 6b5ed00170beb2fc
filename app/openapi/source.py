"""Reads the document to be converted from bytes: a single file, or a zip archive of several; applies its
overlay.
"""

from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import urlsplit

from app.errors import InvalidDocument, TooLarge
from app.openapi.archive import is_archive, unpack
from app.openapi.bundle import Warn, bundle, find_root
from app.openapi.load import load, load_value, sniff
from app.openapi.model import ConvertOptions, DocumentLimits, Json
from app.openapi.overlay import apply_overlay, read_overlay

_DEFAULT_ROOT: Final = "openapi"


@dataclass(frozen=True, slots=True)
class SourceDocument:
    """The raw document, the number of bytes that it was read from, and the paths of missing files."""

    raw: Json
    size: int
    missing: tuple[str, ...] = ()


def read(document: bytes, *, options: ConvertOptions, warn: Warn) -> SourceDocument:
    """Read the OpenAPI document and apply its overlay; raise InvalidDocument or TooLarge where that fails."""
    # An overlay is short: its errors are reported before the document is read.
    actions = None if options.overlay is None else read_overlay(options.overlay, limits=options.limits)
    found = _read(document, options, warn)
    if actions is None:
        return found
    return replace(found, raw=apply_overlay(found.raw, actions, limits=options.limits, warn=warn))


def _read(document: bytes, options: ConvertOptions, warn: Warn) -> SourceDocument:
    if len(document) > options.limits.size:
        raise TooLarge(f"The document has {len(document)} bytes; at most {options.limits.size} are read")
    if is_archive(document):
        return _from_archive(document, options, warn)
    if options.root is not None:
        raise InvalidDocument("`root` is allowed only with a zip archive")
    raw = load(document, options=options, warn=warn)
    if not options.list_missing:
        return SourceDocument(raw, len(document))
    root = root_path(options.url)

    def only(path: str) -> Any:
        return {root: raw}[path]

    gathered = bundle(root, read=only, warn=warn, limits=options.limits, base=options.url)
    return SourceDocument(gathered.raw, len(document), gathered.missing)


def root_path(url: str | None) -> str:
    """Return the path of the document at a URL, as its bundle names it."""
    split = urlsplit(url or "")
    path = split.path.lstrip("/") + (f"?{split.query}" if split.query else "")
    return path or _DEFAULT_ROOT


def _from_archive(document: bytes, options: ConvertOptions, warn: Warn) -> SourceDocument:
    files = unpack(document, limits=options.limits)
    parser = _Parser(files, options.limits, warn)
    root = options.root
    if root is None:
        likely = {path: parser.parse_or_none(path) for path, content in files.items() if sniff(content)}
        root = find_root(likely)
    elif root not in files:
        raise InvalidDocument(f"The zip archive contains no file {root[:200]!r}")
    base = options.url if root == root_path(options.url) else None
    gathered = bundle(root, read=parser.parse, warn=warn, limits=options.limits, base=base)
    if not isinstance(gathered.raw.get("openapi", gathered.raw.get("swagger")), str | int | float):
        raise InvalidDocument(f"{root[:200]!r} has neither a member `openapi` nor `swagger`")
    return SourceDocument(gathered.raw, sum(map(len, files.values())), gathered.missing)


class _Parser:
    """Parses files on demand; the limits apply to all files together."""

    def __init__(self, files: dict[str, bytes], limits: DocumentLimits, warn: Warn) -> None:
        self._files = files
        self._limits = limits
        self._warn = warn
        self._values: dict[str, Any] = {}

    def parse_or_none(self, path: str) -> Any:
        """Return the value of a file, or None where it cannot be parsed."""
        try:
            return self.parse(path)
        except InvalidDocument:
            return None

    def parse(self, path: str) -> Any:
        """Return the value of a file; raise KeyError where there is none, InvalidDocument where it cannot be
        parsed, and TooLarge once all files together are too large.
        """
        if path not in self._values:
            self._values[path] = self._parse(path, self._files[path])
        return self._values[path]

    def _parse(self, path: str, content: bytes) -> Any:
        def warn(pointer: str, detail: str) -> None:
            self._warn(pointer, f"{path[:200]}: {detail}")

        value = load_value(content, media_type="", limits=self._limits, warn=warn)
        nodes = _count(value)
        limits = self._limits
        yaml = 0 if content.lstrip()[:1] in (b"{", b"[") else len(content)
        self._limits = replace(
            limits,
            nodes=max(0, limits.nodes - nodes),
            yaml_size=limits.yaml_size - yaml,
            yaml_nodes=max(0, limits.yaml_nodes - (nodes if yaml else 0)),
        )
        return value


def _count(root: Any) -> int:
    count, stack = 0, [root]
    while stack:
        node = stack.pop()
        count += 1
        if isinstance(node, dict):
            stack.extend(node.values())
        elif isinstance(node, list):
            stack.extend(node)
    return count
