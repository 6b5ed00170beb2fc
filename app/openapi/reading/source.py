"""Reads the document to be converted from bytes: a single file, or a zip archive of several; applies its
overlay.
"""

import re
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import urlsplit

from app.core.errors import InvalidDocument, TooLarge
from app.formats.archive import DocumentLimits, is_archive, unpack
from app.openapi.formats.detection import detect_format
from app.openapi.formats.translation import Translation
from app.openapi.model import ConvertOptions, Json
from app.openapi.reading.bundle import Warn, bundle_files, find_root
from app.openapi.reading.encodings import gunzip, is_gzip
from app.openapi.reading.load import load, load_value, sniff

_DEFAULT_ROOT: Final = "openapi"
_EXTERNAL_REFERENCE: Final = re.compile(rb"\$ref[\"']?\s*:\s*[\"']?[^\s\"'#]")


@dataclass(frozen=True, slots=True)
class SourceDocument:
    """The raw document, the number of bytes that it was read from, and the paths of missing files.

    `translation` is that of a document of another kind.
    """

    raw: Json
    size: int
    missing: tuple[str, ...] = ()
    translation: Translation | None = None


def read(document: bytes, *, options: ConvertOptions, warn: Warn) -> SourceDocument:
    """Read the OpenAPI document and apply its overlay; raise InvalidDocument or TooLarge where that fails."""
    if options.overlay is None:
        return _read_document(document, options, warn)
    # Few documents have one, and the library for JSONPath takes as long to import as all of `app.openapi`.
    from app.openapi.reading.overlay import apply_overlay, read_overlay  # noqa: PLC0415

    # An overlay is short: its errors are reported before the document is read.
    actions = read_overlay(options.overlay, limits=options.limits)
    source = _read_document(document, options, warn)
    return replace(source, raw=apply_overlay(source.raw, actions, limits=options.limits, warn=warn))


def _read_document(document: bytes, options: ConvertOptions, warn: Warn) -> SourceDocument:
    if len(document) > options.limits.size:
        raise TooLarge(f"The document has {len(document)} bytes; at most {options.limits.size} are read")
    if is_gzip(document):
        document = gunzip(document, max_bytes=options.limits.size)
    if is_archive(document):
        return _read_archive(document, options, warn)
    if options.root is not None:
        raise InvalidDocument("`root` is allowed only with a zip archive")
    raw = load(document, options=options, warn=warn)
    translation = translate(raw, warn=warn)
    if translation is not None:
        return SourceDocument(translation.raw, len(document), translation=translation)
    if not (options.list_missing and _may_refer_to_files(document)):
        return SourceDocument(raw, len(document))
    root = get_root_path(options.url)

    def read_root(path: str) -> Any:
        return {root: raw}[path]

    gathered = bundle_files(root, read=read_root, warn=warn, limits=options.limits, base=options.url)
    return SourceDocument(gathered.raw, len(document), gathered.missing)


def _may_refer_to_files(document: bytes) -> bool:
    """Return whether a reference in the bytes may lead out of the document, without parsing them.

    Copying a document of 50 MB in search of one takes seconds.
    """
    return b"\x00" in document[:4] or _EXTERNAL_REFERENCE.search(document) is not None


def get_root_path(url: str | None) -> str:
    """Return the path of the document at a URL, as its bundle names it."""
    split = urlsplit(url or "")
    path = split.path.lstrip("/") + (f"?{split.query}" if split.query else "")
    return path or _DEFAULT_ROOT


def _read_archive(document: bytes, options: ConvertOptions, warn: Warn) -> SourceDocument:
    files = unpack(document, limits=options.limits)
    parser = _FileParser(files, options.limits, warn)
    root = options.root
    if root is None:
        likely = {path: parser.parse_or_none(path) for path, content in files.items() if sniff(content)}
        root = find_root(likely)
    elif root not in files:
        raise InvalidDocument(f"The zip archive contains no file {root[:200]!r}")
    translation = translate(parser.parse(root), warn=warn)
    if translation is not None:
        return SourceDocument(translation.raw, len(files[root]), translation=translation)
    base = options.url if root == get_root_path(options.url) else None
    selves = {
        path: self_uri for path, content in files.items() if (self_uri := parser.read_own_uri(path, content))
    }
    gathered = bundle_files(
        root, read=parser.parse, warn=warn, limits=options.limits, base=base, selves=selves
    )
    if not isinstance(gathered.raw.get("openapi", gathered.raw.get("swagger")), str | int | float):
        raise InvalidDocument(f"{root[:200]!r} has neither a member `openapi` nor `swagger`")
    return SourceDocument(gathered.raw, sum(map(len, files.values())), gathered.missing)


def translate(raw: Any, *, warn: Warn) -> Translation | None:
    """Return the OpenAPI document of a document of another kind; None for OpenAPI itself."""
    kind = detect_format(raw)
    if kind == "postman":
        # Few documents are of another kind, and the converter is imported for each of them.
        from app.openapi.formats.postman import translate_postman  # noqa: PLC0415

        return translate_postman(raw, warn=warn)
    if kind == "discovery":
        from app.openapi.formats.google_discovery import translate_discovery  # noqa: PLC0415

        return translate_discovery(raw, warn=warn)
    return None


class _FileParser:
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

    def read_own_uri(self, path: str, content: bytes) -> str | None:
        """Return the `$self` of a file, by which others may refer to it; None where it has none."""
        value = self.parse_or_none(path) if b"$self" in content else None
        self_uri = value.get("$self") if isinstance(value, dict) else None
        return self_uri if isinstance(self_uri, str) and self_uri else None

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

        value = load_value(content, media_type="", limits=self._limits, warn=warn, drops_tags=True)
        nodes = _count_values(value)
        limits = self._limits
        yaml = 0 if content.lstrip()[:1] in (b"{", b"[") else len(content)
        self._limits = replace(
            limits,
            nodes=max(0, limits.nodes - nodes),
            yaml_size=limits.yaml_size - yaml,
            yaml_nodes=max(0, limits.yaml_nodes - (nodes if yaml else 0)),
        )
        return value


def _count_values(root: Any) -> int:
    count, stack = 0, [root]
    while stack:
        node = stack.pop()
        count += 1
        if isinstance(node, dict):
            stack.extend(node.values())
        elif isinstance(node, list):
            stack.extend(node)
    return count
