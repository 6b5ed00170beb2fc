"""Loads the YAML 1.2 core schema directly from libyaml's events, so that loading stops at an exceeded limit.

PyYAML's own loaders read YAML 1.1 (`NO` is false, `2024-01-01` a date, `1:30` ninety), accept duplicate keys,
and load an alias bomb cheaply that takes gigabytes when it is serialised. Here every scalar is resolved as in
YAML 1.2.2 section 10.3, mapping keys are their literal text (`200:` is "200"), tags are rejected, and an
alias counts as much as its target.
"""

import math
import re
from collections.abc import Callable
from typing import Any

import yaml

from app.errors import InvalidDocument, TooLarge
from app.openapi.model import DocumentLimits

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
_STRING_TAG = "tag:yaml.org,2002:str"
_MERGE = object()


def _plain(text: str) -> Any:
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

    __slots__ = ("anchor", "height", "key", "merges", "nodes", "text", "value")

    def __init__(self, value: dict[str, Any] | list[Any], anchor: str | None) -> None:
        self.value = value
        self.anchor = anchor
        self.key: Any = None
        self.merges: list[dict[str, Any]] = []
        self.nodes = 1
        self.text = 0
        self.height = 1


class _Builder:
    def __init__(self, limits: DocumentLimits, warn: Callable[[str, str], None]) -> None:
        self.limits = limits
        self.warn = warn
        self.root: Any = None
        self.documents = 0
        self.frames: list[_Frame] = []
        self.anchors: dict[str, tuple[Any, int, int, int]] = {}
        self.nodes = 0
        self.text = 0
        self.handlers: dict[type[yaml.Event], Callable[[Any], None]] = {
            yaml.ScalarEvent: self.scalar,
            yaml.AliasEvent: self.alias,
            yaml.MappingStartEvent: self.open,
            yaml.SequenceStartEvent: self.open,
            yaml.MappingEndEvent: self.close,
            yaml.SequenceEndEvent: self.close,
            yaml.DocumentStartEvent: self.document,
        }

    def document(self, event: yaml.DocumentStartEvent) -> None:
        """Count the documents; raise InvalidDocument at the second."""
        self.documents += 1
        if self.documents > 1:
            raise _invalid(event, "contains a second document; send one")

    def charge(self, nodes: int, text: int) -> None:
        """Count nodes and characters; raise TooLarge beyond the limits."""
        self.nodes += nodes
        self.text += text
        if self.nodes > self.limits.yaml_nodes:
            raise TooLarge(f"The YAML document expands to more than {self.limits.yaml_nodes} nodes")
        if self.text > self.limits.size:
            raise TooLarge(f"The YAML document expands to more than {self.limits.size} characters")

    def scalar(self, event: yaml.ScalarEvent) -> None:
        """Add a scalar, as a key or as a value."""
        text: str = event.value
        self.charge(1, len(text))
        if event.tag is not None and event.tag not in {"!", _STRING_TAG}:
            raise _invalid(event, "uses a tag; only plain YAML is read")
        if "\x00" in text:
            text = text.replace("\x00", "")
            self.warn("", "NUL characters were removed from its strings")
        plain = event.implicit[0] and event.tag is None
        frame = self.frames[-1] if self.frames else None
        if frame is not None and isinstance(frame.value, dict) and frame.key is None:
            if text == "<<" and plain:
                frame.key = _MERGE
            elif text in frame.value:
                raise _invalid(event, "has a mapping with the same key twice")
            else:
                frame.key = text
            return
        value = _plain(text) if plain else text
        if event.anchor:
            self.anchors[event.anchor] = (value, 1, len(text), 0)
        self.attach(event, value, 1, len(text), 0)

    def alias(self, event: yaml.AliasEvent) -> None:
        """Add the value of an alias, charged with its full size."""
        if event.anchor not in self.anchors:
            raise _invalid(event, "has an alias to something unknown, or to what contains it")
        value, nodes, text, height = self.anchors[event.anchor]
        self.charge(nodes, text)
        if len(self.frames) + height > self.limits.depth:
            raise _invalid(event, f"is nested deeper than {self.limits.depth} levels")
        self.attach(event, value, nodes, text, height)

    def open(self, event: yaml.MappingStartEvent | yaml.SequenceStartEvent) -> None:
        """Begin a mapping or a sequence."""
        self.charge(1, 0)
        if event.tag is not None and event.tag != "!":
            raise _invalid(event, "uses a tag; only plain YAML is read")
        if len(self.frames) >= self.limits.depth:
            raise _invalid(event, f"is nested deeper than {self.limits.depth} levels")
        if self.frames and isinstance(self.frames[-1].value, dict) and self.frames[-1].key is None:
            raise _invalid(event, "has a mapping or a list as a key")
        if event.anchor:
            # While it is open, an alias to it would create a value that contains itself.
            self.anchors.pop(event.anchor, None)
        self.frames.append(_Frame({} if isinstance(event, yaml.MappingStartEvent) else [], event.anchor))

    def close(self, event: yaml.Event) -> None:
        """End a mapping or a sequence: apply its merge keys, and add it to its parent."""
        frame = self.frames.pop()
        if isinstance(frame.value, dict):
            for merged in frame.merges:
                for key, value in merged.items():
                    frame.value.setdefault(key, value)
        if frame.anchor:
            self.anchors[frame.anchor] = (frame.value, frame.nodes, frame.text, frame.height)
        self.attach(event, frame.value, frame.nodes, frame.text, frame.height)

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
            raise _invalid(event, "has an alias as a key")
        elif frame.key is _MERGE:
            merged = value if isinstance(value, list) else [value]
            if not all(isinstance(one, dict) for one in merged):
                raise _invalid(event, "merges something that is not a mapping")
            frame.merges.extend(merged)
            frame.key = None
        else:
            frame.value[frame.key] = value
            frame.key = None


def _invalid(event: yaml.Event, what: str) -> InvalidDocument:
    mark = event.start_mark
    if mark is None:
        return InvalidDocument(f"The document {what}")
    return InvalidDocument(f"The document {what} (line {mark.line + 1}, column {mark.column + 1})")


def load_yaml(document: bytes, *, limits: DocumentLimits, warn: Callable[[str, str], None]) -> Any:
    """Load one UTF-8 YAML document and return its value; repairs are reported to `warn(pointer, detail)`.

    Raises InvalidDocument with line and column, or TooLarge with the limit that was exceeded.
    """
    if len(document) > limits.yaml_size:
        raise TooLarge(f"A YAML document may have at most {limits.yaml_size} bytes; JSON may be larger")
    # Counting lines takes a tenth of the time of parsing as many nodes.
    if any(number >= limits.yaml_nodes for number, _ in enumerate(_NODE_LINE.finditer(document))):
        raise TooLarge(f"The YAML document has more than {limits.yaml_nodes} nodes")
    builder = _Builder(limits, warn)
    try:
        for event in yaml.parse(document, Loader=_LOADER):
            handler = builder.handlers.get(type(event))
            if handler is not None:
                handler(event)
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        lines = document.splitlines()
        has_tab = mark and mark.line < len(lines) and lines[mark.line].lstrip(b" ").startswith(b"\t")
        reason = ": YAML is indented with spaces, not with tabs" if has_tab else ""
        raise InvalidDocument(f"The document is neither JSON nor YAML{where}{reason}") from None
    except (yaml.YAMLError, ValueError):
        raise InvalidDocument("The document is neither JSON nor YAML") from None
    return builder.root
