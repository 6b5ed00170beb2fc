"""M10, M11 and M12 of a body: reachable, sent as the document allows, its (required) properties.

The schema of the document and that of the tool are walked side by side, through the references of each.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from benchmarks.corpus.inputs import compiles
from benchmarks.corpus.operations import Pair
from benchmarks.corpus.reading import Json, Reading, UnresolvedError
from benchmarks.corpus.records import Record

_APPLIED = ("additionalProperties", "items", "not", "propertyNames", "contains", "if", "then", "else")
_LISTED = ("allOf", "anyOf", "oneOf", "prefixItems")
_WILD = {"*/*": "application/json", "application/*": "application/json", "text/*": "text/plain",
         "multipart/*": "multipart/form-data", "image/*": "application/octet-stream"}  # fmt: skip


def base(media: str) -> str:
    """Return a media type without its parameters."""
    return media.partition(";")[0].strip().lower()


def is_json(media: str) -> bool:
    """Return whether a media type or range is, or includes, JSON."""
    kind = base(media)
    return kind in ("application/json", "text/json", "*/*", "application/*") or kind.endswith("+json")


def is_form(media: str) -> bool:
    """Return whether a media type is urlencoded or multipart."""
    return base(media) == "application/x-www-form-urlencoded" or base(media).startswith("multipart/")


@dataclass(frozen=True)
class _Step:
    """A schema of the document beside one of the tool; `hidden` are read-only names around it."""

    literal: Any
    made: Any
    hidden: frozenset[str]


@dataclass(frozen=True)
class _Seen:
    keep: tuple[Any, Any]
    required: tuple[Any, Any] | None
    offered: tuple[str, ...]
    missing: tuple[str, ...]
    lost: str
    children: tuple[_Step, ...]


@dataclass
class Schemas:
    """Compares the schemas of one document with those of its tools; each pair is compared once."""

    reading: Reading
    #: Whether the report says that a pattern was left out.
    remarked: bool = False
    _seen: dict[tuple[int, int, frozenset[str]], _Seen] = field(default_factory=dict)

    def check(self, pair: Pair, record: Record) -> None:
        """Compare the body and the parameters of one operation."""
        properties = pair.tool.inputs["properties"]
        defs = pair.tool.inputs.get("$defs", {})
        for one in pair.wanted:
            entry = pair.entry(one)
            if entry is not None:
                self._compare(_Step(one.schema, properties.get(entry["input"]), frozenset()), defs, record)
        literal = pair.operation.body
        if literal is None or pair.operation.method == "TRACE":
            return
        some_json = any(map(is_json, literal.content))
        suffix = " body" if some_json else " non-JSON"
        plan = pair.body
        reachable = plan is not None and plan["input"] in properties
        record.check(f"M11{suffix}", reachable, expected="a body", got=plan)
        if plan is None or not reachable:
            return
        wants = f"body required: {literal.required}"
        required = plan["input"] in pair.tool.inputs.get("required", ())
        record.check("M10", required == literal.required, expected=wants, got=required)
        if not literal.content:
            return
        chosen = self._chosen(literal.content, plan["content_type"])
        ok = chosen is not None and (is_json(plan["content_type"]) or not some_json)
        record.check(
            f"M12{suffix if not some_json else ' JSON'}",
            ok,
            expected=list(literal.content),
            got=plan["content_type"],
        )
        if chosen is None:
            return
        schema, made = literal.content[chosen].get("schema", True), properties[plan["input"]]
        if is_json(chosen) or is_form(chosen):
            self._compare(_Step(schema, made, frozenset()), defs, record)
        elif plan.get("xml") is not None:
            # The other alternative is the document as text; the root that has no name is a member.
            value = made["anyOf"][0]
            value = value.get("additionalProperties", value) if "maxProperties" in value else value
            self._compare(_Step(schema, value, frozenset()), defs, record)

    def _chosen(self, content: dict[str, Json], sent: str) -> str | None:
        """Return the media type of the document that corresponds to the one that was sent."""
        for media in content:
            if base(media) == base(sent) or _WILD.get(base(media)) == base(sent):
                return media
        return next((media for media in content if "*" in media and "octet" in sent), None)

    def _compare(self, start: _Step, defs: Json, record: Record) -> None:
        queue = deque([start])
        done: set[tuple[int, int, frozenset[str]]] = set()
        while queue:
            step = self._resolved(queue.popleft(), defs)
            if step is None:
                continue
            key = id(step.literal), id(step.made), step.hidden
            if key in done:
                continue
            done.add(key)
            seen = self._seen.get(key)
            if seen is None:
                seen = self._seen[key] = self._look(step)
            if seen.required is not None:
                record.check("M10", False, expected=seen.required[0], got=seen.required[1])
            record.check("M11 readOnly", not seen.offered, expected="not offered", got=seen.offered)
            if seen.lost:
                record.check("M6 patterns", False, expected=seen.lost, got="no pattern, and no remark")
            record.check("M11 properties", not seen.missing, expected=seen.missing, got="missing")
            queue.extend(seen.children)

    def _resolved(self, step: _Step, defs: Json) -> _Step | None:
        """Return both sides with their references resolved; None where the document's is not a schema."""
        literal, made = step.literal, step.made
        try:
            literal = self.reading.follow(literal) if not self.reading.v31 else literal
        except UnresolvedError:
            return None
        for _ in range(60):
            bare = (
                isinstance(made, dict)
                and "$ref" in made
                and not ({"anyOf", "required", "properties"} & made.keys())
            )
            if not bare or (self.reading.v31 and isinstance(literal, dict) and "$ref" in literal):
                break
            made = defs.get(made["$ref"].removeprefix("#/$defs/"))
        if self.reading.v31 and isinstance(literal, dict) and isinstance(literal.get("$ref"), str):
            return self._pair_31(literal, made, step.hidden, defs)
        return _Step(literal, made, step.hidden) if isinstance(literal, dict) else None

    def _pair_31(self, literal: Json, made: Any, hidden: frozenset[str], defs: Json) -> _Step | None:
        """Compare keywords beside `$ref`, which 3.1 allows, and the target as one more part."""
        beside = {key: value for key, value in literal.items() if key != "$ref"}
        target = {"$ref": literal["$ref"]}
        if not isinstance(made, dict) or "$ref" not in made:
            return _Step({"allOf": [target], **beside}, made, hidden)
        try:
            behind = self.reading.at(literal["$ref"])
        except UnresolvedError:
            return None
        reached = defs.get(made["$ref"].removeprefix("#/$defs/"))
        if not beside.keys() & {"required", "properties", "allOf"}:
            return self._resolved(_Step(behind, reached, hidden), defs)
        rest = {key: value for key, value in made.items() if key != "$ref"}
        return _Step({"allOf": [behind], **beside}, {"allOf": [reached], **rest}, hidden)

    def _look(self, step: _Step) -> _Seen:
        literal, made = step.literal, step.made
        keep = (literal, made)
        made = _without_null(literal, made)
        if not isinstance(made, dict):
            return _Seen(keep, ("an object schema", made), (), (), "", ())
        hidden = step.hidden | self._read_only_names(literal)
        properties = literal.get("properties")
        properties = properties if isinstance(properties, dict) else {}
        ours = made.get("properties", {})
        wanted = {name: one for name, one in properties.items() if isinstance(one, dict | bool)}
        offered = tuple(name for name in ours if name in wanted and self.reading.read_only(wanted[name]))
        missing = tuple(n for n, one in wanted.items() if n not in ours and not self.reading.read_only(one))
        required = literal.get("required")
        required = required if isinstance(required, list) else []
        expected = {name for name in required if isinstance(name, str) and name not in hidden}
        got = set(made.get("required", ()))
        differs = None if expected == got else (sorted(expected), sorted(got))
        children = [_Step(wanted[name], ours[name], frozenset()) for name in ours if name in wanted]
        children += self._inner(literal, made, hidden)
        return _Seen(keep, differs, offered, missing, self._lost(literal, made), tuple(children))

    def _lost(self, literal: Json, made: Json) -> str:
        """Return a pattern that the tool lacks although every engine supports it, or without a warning."""
        pattern = literal.get("pattern")
        if not isinstance(pattern, str) or made.get("pattern") == pattern:
            return ""
        return "" if self.remarked and not compiles(pattern) else pattern

    def _inner(self, literal: Json, made: Json, hidden: frozenset[str]) -> list[_Step]:
        steps = [
            _Step(literal[word], made[word], frozenset())
            for word in _APPLIED
            if isinstance(literal.get(word), dict) and isinstance(made.get(word), dict)
        ]
        for word in _LISTED:
            theirs, ours = literal.get(word), made.get(word)
            if isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
                names = hidden if word == "allOf" else frozenset[str]()
                steps += [_Step(one, other, names) for one, other in zip(theirs, ours, strict=True)]
        return steps

    def _read_only_names(self, literal: Json) -> frozenset[str]:
        if "properties" not in literal and "allOf" not in literal:
            return frozenset()
        return frozenset(
            name
            for part in self.reading.parts(literal)
            if isinstance(part.get("properties"), dict)
            for name, one in part["properties"].items()
            if self.reading.read_only(one)
        )


def _without_null(literal: Any, made: Any) -> Any:
    """`anyOf: [schema, null]` is how `nullable` may be written beside a combination."""
    if not isinstance(literal, dict) or not isinstance(made, dict):
        return made
    either = made.get("anyOf")
    if "anyOf" in made and "anyOf" not in literal and isinstance(either, list) and {"type": "null"} in either:
        return either[0]
    if (
        literal.get("nullable") is True
        and isinstance(either, list)
        and len(either) == 2
        and either[1] == {"type": "null"}
    ):
        return either[0]
    return made
