"""Loads the YAML 1.2 core schema directly from libyaml's events, so that loading stops at an exceeded limit.

PyYAML's own loaders read YAML 1.1 (`NO` is false, `2024-01-01` a date, `1:30` ninety), accept duplicate keys,
and load an alias bomb cheaply that takes gigabytes when it is serialised. Here every scalar is resolved as in
YAML 1.2.2 section 10.3, mapping keys are their literal text (`200:` is "200"), tags of other schemas are
rejected or cost their node, and an alias counts as much as its target.
"""

import math
import re
from collections.abc import Callable
from typing import Any

import yaml

from app.core.errors import InvalidDocument, TooLarge
from app.formats.archive import DocumentLimits
from app.openapi.reading.refs import pointer

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_LITERALS: dict[str, Any] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
# Text with a leading zero is not a number here: JSON has no such numbers, and 0123 is usually an identifier.
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,307})", re.ASCII)
_BASED = re.compile(r"0o[0-7]{1,21}|0x[0-9a-fA-F]{1,16}", re.ASCII)
_FLOAT = re.compile(
    r"[-+]?(?:\.[0-9]{1,400}|(?:0|[1-9][0-9]{0,400})(?:\.[0-9]{0,400})?)(?:[eE][-+]?[0-9]{1,5})?", re.ASCII
)
_NUMERIC = frozenset("+-.0123456789")
# Lines that begin a list item or a mapping entry: at least one node each, unless they are in a text block.
_NODE_LINE = re.compile(rb"^[ ]*(?:- |[\w\"'][^\n:]{0,200}:(?: |$))", re.MULTILINE)
# Blank lines and comments that begin with tabs, which libyaml rejects (YAML 1.2.2, section 6.6).
_TAB_LINE = re.compile(rb"(?:^|(?<=\r))( *)\t[ \t]*(?:#[^\r\n]*)?(?=[\r\n]|\Z)", re.MULTILINE)
# What ends a line in YAML 1.1, and so in the marks of the parser, but does not in YAML 1.2 (section 5.4).
_OLD_BREAK = re.compile("\u0085|\u2028|\u2029".encode())
_TAG = "tag:yaml.org,2002:"
_STRING_TAGS = frozenset({"!", f"{_TAG}str"})
_TYPES_OF_TAGS: dict[str, tuple[type, ...]] = {
    f"{_TAG}int": (int,), f"{_TAG}float": (float, int), f"{_TAG}bool": (bool,), f"{_TAG}null": (type(None),),
}  # fmt: skip
_MERGE = object()
_DROPPED = object()


def _read_plain_scalar(text: str) -> Any:
    """Return the value of an unquoted scalar in the core schema; an integer beyond 64 bits is a float, as
    in JSON.
    """
    if text in _LITERALS:
        return _LITERALS[text]
    if text[0] not in _NUMERIC:
        return text
    if _INT.fullmatch(text):
        whole = int(text)
        return whole if -(2**63) <= whole < 2**64 else float(whole)
    if _BASED.fullmatch(text):
        return int(text, 0)
    if _FLOAT.fullmatch(text):
        number = float(text)
        return number if math.isfinite(number) else text
    return text


class _Frame:
    """A mapping or sequence that is still open, with the size of its contents so far."""

    __slots__ = ("anchor", "dropped", "height", "key", "merges", "nodes", "text", "value")

    def __init__(self, value: dict[str, Any] | list[Any], anchor: str | None) -> None:
        self.value = value
        self.anchor = anchor
        self.key: Any = None
        self.merges: list[dict[str, Any]] = []
        self.nodes = 1
        self.text = 0
        self.height = 1
        self.dropped = False


class _Builder:
    """Builds the value of a document from its events; the first `warned` of its warnings are known."""

    def __init__(
        self, limits: DocumentLimits, warn: Callable[[str, str], None], *, drops_tags: bool, warned: int = 0
    ) -> None:
        self.limits = limits
        self.report = warn
        self.drops_tags = drops_tags
        self.warned = warned
        self.warnings = 0
        self.root: Any = None
        self.documents = 0
        self.frames: list[_Frame] = []
        self.anchors: dict[str, tuple[Any, int, int, int]] = {}
        self.nodes = 0
        self.text = 0
        self.handlers: dict[type[yaml.Event], Callable[[Any], None]] = {
            yaml.ScalarEvent: self.add_scalar,
            yaml.AliasEvent: self.add_alias,
            yaml.MappingStartEvent: self.open,
            yaml.SequenceStartEvent: self.open,
            yaml.MappingEndEvent: self.close,
            yaml.SequenceEndEvent: self.close,
            yaml.DocumentStartEvent: self.count_document,
        }

    def count_document(self, event: yaml.DocumentStartEvent) -> None:
        """Count the documents; raise InvalidDocument at the second."""
        self.documents += 1
        if self.documents > 1:
            raise _reject_event(event, "contains a second document; send one")

    def warn(self, pointer: str, detail: str) -> None:
        """Report a repair, unless it is known from an earlier attempt."""
        self.warnings += 1
        if self.warnings > self.warned:
            self.report(pointer, detail)

    def charge(self, nodes: int, text: int) -> None:
        """Count nodes and characters; raise TooLarge beyond the limits."""
        self.nodes += nodes
        self.text += text
        if self.nodes > self.limits.yaml_nodes:
            raise TooLarge(f"The YAML document expands to more than {self.limits.yaml_nodes} nodes")
        if self.text > self.limits.size:
            raise TooLarge(f"The YAML document expands to more than {self.limits.size} characters")

    def add_scalar(self, event: yaml.ScalarEvent) -> None:
        """Add a scalar, as a key or as a value."""
        text: str = event.value
        self.charge(1, len(text))
        if "\x00" in text:
            text = text.replace("\x00", "")
            self.warn("", "NUL characters were removed from its strings")
        plain = event.implicit[0] and event.tag is None
        value = _read_plain_scalar(text) if plain or event.tag in _TYPES_OF_TAGS else text
        known = event.tag is None or event.tag in _STRING_TAGS or _has_type(value, event.tag)
        frame = self.frames[-1] if self.frames else None
        if not known:
            self.drop(event)
            value = None
        if frame is not None and isinstance(frame.value, dict) and frame.key is None:
            if not known:
                frame.key = _DROPPED
            elif text == "<<" and plain:
                frame.key = _MERGE
            elif text in frame.value:
                raise _reject_event(event, "has a mapping with the same key twice")
            else:
                frame.key = text
            return
        if event.anchor:
            self.anchors[event.anchor] = (value, 1, len(text), 0)
        self.attach(event, value, 1, len(text), 0)

    def add_alias(self, event: yaml.AliasEvent) -> None:
        """Add the value of an alias, charged with its full size."""
        if event.anchor not in self.anchors:
            raise _reject_event(event, "has an alias to something unknown, or to what contains it")
        value, nodes, text, height = self.anchors[event.anchor]
        self.charge(nodes, text)
        if len(self.frames) + height > self.limits.depth:
            raise _reject_event(event, f"is nested deeper than {self.limits.depth} levels")
        self.attach(event, value, nodes, text, height)

    def open(self, event: yaml.MappingStartEvent | yaml.SequenceStartEvent) -> None:
        """Begin a mapping or a sequence."""
        self.charge(1, 0)
        kind = "map" if isinstance(event, yaml.MappingStartEvent) else "seq"
        known = event.tag is None or event.tag in {"!", f"{_TAG}{kind}"}
        if not known:
            self.drop(event)
        if len(self.frames) >= self.limits.depth:
            raise _reject_event(event, f"is nested deeper than {self.limits.depth} levels")
        if self.frames and isinstance(self.frames[-1].value, dict) and self.frames[-1].key is None:
            raise _reject_event(event, "has a mapping or a list as a key")
        if event.anchor:
            # While it is open, an alias to it would create a value that contains itself.
            self.anchors.pop(event.anchor, None)
        self.frames.append(_Frame({} if kind == "map" else [], event.anchor))
        self.frames[-1].dropped = not known

    def drop(self, event: yaml.NodeEvent) -> None:
        """Warn that the node of a tag is null; raise InvalidDocument where it is the whole document."""
        if not self.drops_tags or not self.frames:
            raise _reject_event(event, "uses a tag; only plain YAML is read")
        tokens: list[str] = []
        for frame in self.frames:
            if isinstance(frame.value, list):
                tokens.append(str(len(frame.value)))
            elif frame.key is not None:
                tokens.append(frame.key if isinstance(frame.key, str) else "<<")
        self.warn(
            pointer(tuple(tokens)), "a node with a tag that YAML's core schema does not have was read as null"
        )

    def close(self, event: yaml.Event) -> None:
        """End a mapping or a sequence: apply its merge keys, and add it to its parent."""
        frame = self.frames.pop()
        if isinstance(frame.value, dict):
            for merged in frame.merges:
                for key, member in merged.items():
                    frame.value.setdefault(key, member)
        value = None if frame.dropped else frame.value
        if frame.anchor:
            self.anchors[frame.anchor] = (value, frame.nodes, frame.text, frame.height)
        self.attach(event, value, frame.nodes, frame.text, frame.height)

    def attach(self, event: yaml.Event, value: Any, nodes: int, text: int, height: int) -> None:
        """Add a finished value to the open mapping or sequence, or make it the root."""
        if not self.frames:
            self.root = value
            return
        frame = self.frames[-1]
        frame.nodes += nodes
        frame.text += text
        frame.height = max(frame.height, height + 1)
        if isinstance(frame.value, list):
            frame.value.append(value)
        elif frame.key is None:
            raise _reject_event(event, "has an alias as a key")
        elif frame.key is _MERGE:
            merged = [one for one in (value if isinstance(value, list) else [value]) if one is not None]
            if not all(isinstance(one, dict) for one in merged):
                raise _reject_event(event, "merges something that is not a mapping")
            frame.merges.extend(merged)
            frame.key = None
        else:
            if frame.key is not _DROPPED:
                frame.value[frame.key] = value
            frame.key = None


def _has_type(value: Any, tag: str) -> bool:
    return type(value) in _TYPES_OF_TAGS.get(tag, ())


def _reject_event(event: yaml.Event, what: str) -> InvalidDocument:
    mark = event.start_mark
    if mark is None:
        return InvalidDocument(f"The document {what}")
    return InvalidDocument(f"The document {what} (line {mark.line + 1}, column {mark.column + 1})")


def load_yaml(
    document: bytes,
    *,
    limits: DocumentLimits,
    warn: Callable[[str, str], None],
    drops_tags: bool = False,
) -> Any:
    """Load one UTF-8 YAML document and return its value; repairs are reported to `warn(pointer, detail)`.

    With `drops_tags`, a node below the root whose tag is not of the core schema is null; else it raises.
    Raises InvalidDocument with line and column, or TooLarge with the limit that was exceeded.
    """
    if len(document) > limits.yaml_size:
        raise TooLarge(f"A YAML document may have at most {limits.yaml_size} bytes; JSON may be larger")
    # Counting lines takes a tenth of the time of parsing as many nodes.
    if any(number >= limits.yaml_nodes for number, _ in enumerate(_NODE_LINE.finditer(document))):
        raise TooLarge(f"The YAML document has more than {limits.yaml_nodes} nodes")
    builder = _Builder(limits, warn, drops_tags=drops_tags)
    try:
        try:
            return _build(document, builder)
        except yaml.MarkedYAMLError:
            if _TAB_LINE.search(document) is None:
                raise
            repaired = _without_tab_lines(document)
            builder = _Builder(limits, warn, drops_tags=drops_tags, warned=builder.warnings)
            return _build(repaired, builder)
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        lines, numbers = _split_lines(document)
        has_tab = mark and mark.line < len(numbers) and lines[numbers[mark.line]].lstrip(b" ")[:1] == b"\t"
        reason = ": YAML is indented with spaces, not with tabs" if has_tab else ""
        raise InvalidDocument(f"The document is neither JSON nor YAML{where}{reason}") from None
    except (yaml.YAMLError, ValueError):
        raise InvalidDocument("The document is neither JSON nor YAML") from None


def _build(document: bytes, builder: _Builder) -> Any:
    for event in yaml.parse(document, Loader=_LOADER):
        handler = builder.handlers.get(type(event))
        if handler is not None:
            handler(event)
    return builder.root


def _without_tab_lines(document: bytes) -> bytes:
    """Return the document with lines of tabs emptied, less those that are text of a scalar."""
    blank = _TAB_LINE.sub(b"", document)
    lines, _ = _split_lines(document)
    indented, numbers = _split_lines(blank)
    for event in yaml.parse(blank, Loader=_LOADER):
        start, end = event.start_mark, event.end_mark
        if not isinstance(event, yaml.ScalarEvent) or start is None or end is None:
            continue
        inside = range(numbers[start.line] + 1, numbers[end.line])
        # The text of a block begins at the indentation of its first line.
        texts = (line for line in indented[inside.start : inside.stop] if line.strip())
        indent = 0 if event.style in ("'", '"') else next((len(t) - len(t.lstrip(b" ")) for t in texts), 0)
        for number in inside if event.style else ():
            tab_line = _TAB_LINE.match(lines[number])
            if tab_line is not None and len(tab_line[1]) >= indent:
                indented[number] = lines[number]
    return b"".join(indented)


def _split_lines(document: bytes) -> tuple[list[bytes], list[int]]:
    """Return the lines of a document with their ends, and the index of each by the line of a mark."""
    lines = [*document.splitlines(keepends=True), b""]
    return lines, [
        number for number, line in enumerate(lines) for _ in range(len(_OLD_BREAK.findall(line)) + 1)
    ]
