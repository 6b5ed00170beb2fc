"""Bundles several files into one document: relative references become local ones.

Each file that is referred to, directly or not, is put once under `x-files` of the root document, by its path;
`pets.yaml#/Pet` becomes `#/x-files/pets.yaml/Pet`. Nothing is inlined, so cycles between files become cycles
of local references. A file may also be named by its own URI, its `$self` (OAS 3.2). Without I/O: the
caller's `read` returns the value of a file.
"""

import posixpath
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from app.core.errors import InvalidDocument, TooLarge
from app.formats.archive import DocumentLimits
from app.openapi.model import Json
from app.openapi.reading.identifiers import Identifiers
from app.openapi.reading.load import is_convertible, is_openapi
from app.openapi.reading.refs import escape_token

FILES: Final = "x-files"
"""The member of the root document that contains the other files by path."""

MAX_MISSING: Final = 1_000
# Below these keywords, keys are names that the author chose; below those of _VALUES, `$ref` is data.
_MAPS: Final = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "schemas", "parameters",
     "responses", "requestBodies", "headers", "securitySchemes", "pathItems", "paths", "content", "callbacks",
     "links", "encoding", "webhooks", "mapping", "securityDefinitions"}
)  # fmt: skip
_VALUES: Final = frozenset({"enum", "const", "default", "example", "examples"})

# The base of `$self` for files that have no URL, such as those of an archive.
_NOWHERE: Final = "https://files.invalid/"

Read = Callable[[str], Any]
"""Path -> parsed value; raises KeyError for a missing file, InvalidDocument for one that cannot be parsed."""
Warn = Callable[[str, str], None]


@dataclass(frozen=True, slots=True)
class BundledDocument:
    """A bundled document, and the paths of files that it refers to and that are missing."""

    raw: Json
    missing: tuple[str, ...] = ()


def bundle_files(
    root: str,
    *,
    read: Read,
    warn: Warn,
    limits: DocumentLimits,
    base: str | None = None,
    selves: Mapping[str, str] | None = None,
) -> BundledDocument:
    """Return the document at path `root` bundled with all files that it refers to.

    `base` is the URL that paths are relative to: absolute references to its origin count as paths, too.
    `selves` are the `$self` of the files that have one, by path; that of the root need not be given. A
    reference that cannot be followed stays unchanged, and a file that cannot be parsed is reported to `warn`.
    Raises InvalidDocument if the root is not an object, TooLarge beyond `limits.nodes`, and whatever `read`
    raises for the root.
    """
    gathering = _Gathering(root, read, warn, limits, base)
    value = read(root)
    self_uri = value.get("$self") if isinstance(value, dict) else None
    gathering.identify(
        {**(selves or {}), **({root: self_uri} if isinstance(self_uri, str) and self_uri else {})}
    )
    raw = gathering.rewrite_file(root, value)
    if not isinstance(raw, dict):
        raise InvalidDocument(f"{root[:200]!r} is not an object")
    files: Json = {}
    while gathering.waiting:
        path = gathering.waiting.popleft()
        files[path] = gathering.rewrite_file(path, gathering.values.pop(path))
    if files:
        _inline_paths(raw, files)
        # A member of this name in the document itself has no meaning in OpenAPI, and may be replaced.
        raw[FILES] = files
    return BundledDocument(raw, tuple(gathering.missing))


def _inline_paths(raw: Json, files: Json) -> None:
    """Replace each path that only refers to a file by the content of that file.

    Bundlers do the same, and overlays expect the path to be there.
    """
    paths = raw.get("paths")
    if not isinstance(paths, dict):
        return
    for path, item in paths.items():
        reference = item.get("$ref") if isinstance(item, dict) and len(item) == 1 else None
        if not isinstance(reference, str) or not reference.startswith(f"#/{FILES}/"):
            continue
        tokens = [token.replace("~1", "/").replace("~0", "~") for token in reference.split("/")[2:]]
        node: Any = files
        for token in tokens:
            node = node.get(token) if isinstance(node, dict) else None
        if isinstance(node, dict):
            paths[path] = node


@dataclass(slots=True)
class _Gathering:
    root: str
    read: Read
    warn: Warn
    limits: DocumentLimits
    base: str | None
    waiting: deque[str] = field(default_factory=deque)
    values: dict[str, Any] = field(default_factory=dict)
    known: dict[str, bool] = field(default_factory=dict)
    missing: dict[str, None] = field(default_factory=dict)
    nodes: int = 0
    identifiers: frozenset[str] | None = None
    current: Any = None
    current_url: str = ""
    own_uris: dict[str, str] = field(default_factory=dict)
    identities: dict[str, str] = field(default_factory=dict)

    def identify(self, selves: Mapping[str, str]) -> None:
        """Record the `$self` of files by path; a relative one is resolved against the file's URL."""
        for path, self_uri in selves.items():
            uri = urldefrag(_join_uri(self._join_url(path), self_uri))[0]
            self.own_uris[path] = uri
            self.identities.setdefault(uri, path)

    def rewrite_file(self, path: str, value: Any) -> Any:
        """Return a copy of a file's value with local references; a file of a fragment may be a map of
        names.
        """
        url = self.own_uris.get(path) or self._join_url(path)
        self.current, self.current_url, self.identifiers = value, url, None
        keywords = path == self.root or is_openapi(value)
        return self._rewrite_node(value, path, base=self.current_url, keywords=keywords, names=False)

    def _join_url(self, path: str) -> str:
        return _join_uri(self.base or _NOWHERE, f"/{path}")

    def _rewrite_node(self, node: Any, path: str, *, base: str, keywords: bool, names: bool) -> Any:
        self.nodes += 1
        if self.nodes > self.limits.nodes:
            raise TooLarge(f"The files have more than {self.limits.nodes} values together")
        if isinstance(node, list):
            return [
                self._rewrite_node(member, path, base=base, keywords=True, names=False) for member in node
            ]
        if not isinstance(node, dict):
            return node
        copied: Json = {}
        if isinstance(node.get("$id"), str) and not names:
            base = _join_uri(base, node["$id"])
        for key, value in node.items():
            if key == "$ref" and isinstance(value, str) and not names:
                copied[key] = self._rewrite_reference(value, path, base)
            elif key in _VALUES and keywords and not names:
                copied[key] = value
            else:
                copied[key] = self._rewrite_node(
                    value, path, base=base, keywords=True, names=key in _MAPS and not names
                )
        return copied

    def _rewrite_reference(self, reference: str, path: str, base: str) -> str:
        file, mark, fragment = reference.partition("#")
        target = path if not file else self._find_target(file, path, base)
        if target is None or (fragment and not fragment.startswith("/")):
            # Another origin, or an anchor: left to the converter, which reports it where it matters.
            return reference
        if target == self.root:
            return f"#{fragment}" if fragment else reference if not mark else "#"
        return f"#/{FILES}/{escape_token(target)}{fragment}"

    def _find_target(self, file: str, path: str, base: str) -> str | None:
        """Return the path of the file that a reference names; None if there is none that can be read.

        `base` is the URI of the schema resource that has the reference.
        """
        own_uri = self.own_uris.get(path)
        uri = file if own_uri is None else _join_uri(own_uri, file)
        if uri in self.identities:
            return self._open_path(self.identities[uri])
        target_path = (None if own_uri is None else self._resolve_path(uri, path)) or self._resolve_path(
            file, path
        )
        if target_path is None:
            return None
        for spelling in dict.fromkeys((target_path, unquote(target_path))):
            if self._is_there(spelling):
                return spelling
        if self._is_identifier(_join_uri(base, file)):
            return None
        if len(self.missing) < MAX_MISSING and not self.known.get(target_path):
            self.missing[target_path] = None
        return None

    def _is_identifier(self, uri: str) -> bool:
        """Return whether the URI is the `$id` of a schema in the present file."""
        if self.identifiers is None:
            identifiers = (
                Identifiers.of(self.current, url=self.current_url) if isinstance(self.current, dict) else None
            )
            self.identifiers = (
                frozenset() if identifiers is None else frozenset(identifiers.resources.values())
            )
        return uri in self.identifiers

    def _open_path(self, path: str) -> str | None:
        return path if self._is_there(path) else None

    def _resolve_path(self, file: str, path: str) -> str | None:
        if "://" in file or file.startswith("//"):
            base = urlsplit(self.base or "")
            split = urlsplit(file if "://" in file else f"{base.scheme}:{file}")
            if not base.netloc or (split.scheme, split.netloc) != (base.scheme, base.netloc):
                return None
            file = split.path + (f"?{split.query}" if split.query else "")
        elif ":" in file.partition("/")[0]:
            return None
        joined = posixpath.normpath(posixpath.join("/", posixpath.dirname(path), file))
        climbs = posixpath.normpath(posixpath.join(posixpath.dirname(path), file)).startswith("..")
        return None if climbs and not file.startswith("/") else joined.lstrip("/") or None

    def _is_there(self, path: str) -> bool:
        if path == self.root:
            return True
        if path not in self.known:
            self.known[path] = self._open_file(path)
        return self.known[path]

    def _open_file(self, path: str) -> bool:
        try:
            self.values[path] = self.read(path)
        except KeyError:
            return False
        except InvalidDocument as problem:
            self.warn("", f"the file {path[:200]} is left out: {problem.detail}")
            return False
        self.waiting.append(path)
        return True


def _join_uri(base: str, reference: str) -> str:
    try:
        return urljoin(base, reference)
    except ValueError:
        return reference


def find_root(files: Mapping[str, Any]) -> str:
    """Return the path of the OpenAPI document among parsed files that is closest to the root folder.

    Raises InvalidDocument if there is none, or if several are equally close.
    """
    convertible = [path for path, value in files.items() if is_convertible(value)]
    if not convertible:
        raise InvalidDocument("None of the files has a member `openapi` or `swagger`")
    nearest = min(path.count("/") for path in convertible)
    candidates = sorted(path for path in convertible if path.count("/") == nearest)
    if len(candidates) > 1:
        several = ", ".join(candidates[:10])
        raise InvalidDocument(f"Several files could be the document: {several}. Name one of them as `root`.")
    return candidates[0]
