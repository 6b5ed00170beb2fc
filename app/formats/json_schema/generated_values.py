"""Values that a JSON Schema (2020-12) accepts, the same for the same seed: for responses of mocks.

A value is made along the schema, and validated; where it is not valid, because keywords of the schema exclude
it that are not looked at here, others are tried, and the one with the fewest violations is taken. Members
with the name of a secret, and passwords, are `***`.

What is optional ends early: at 8 levels and 2,000 values. What is required is made within a budget, and
BudgetExceeded is raised where it does not suffice: a value is never cut to fit.
"""

import math
import re
import string
from collections.abc import Mapping
from random import Random
from typing import Any, Final
from uuid import UUID

import orjson

from app.core import exact_json
from app.core.errors import InvalidInput
from app.core.secret_names import is_secret_name
from app.formats.json_schema.budget import Budget, BudgetExceeded
from app.formats.json_schema.references import resolve
from app.formats.json_schema.validator import OutputValidator

_ATTEMPTS: Final = 12
_MAX_EXCEEDED: Final = 3
"""Attempts that may exceed the budget before there are no more."""
_MAX_DEPTH: Final = 8
_MAX_OPTIONAL: Final = 2_000
"""Values of one response; beyond that, only what is required is made."""
_MAX_VALUES: Final = 10_000
_MAX_CHARACTERS: Final = 1 << 18
_MAX_LEVELS: Final = 64
_MAX_LENGTH: Final = 10_000
"""Characters of a text, of a repetition in a pattern, and of an example, where no more are required."""
_MAX_EXAMPLES: Final = 20
_MASK: Final = "***"
_WORDS: Final = (
    "amber", "basil", "cedar", "delta", "ember", "fjord", "grove", "hazel", "indigo", "jasper", "kelp",
    "lunar", "maple", "north", "ocean", "pearl",
)  # fmt: skip
_MERGED: Final = ("properties", "patternProperties", "$defs")


def stated_examples(schema: Mapping[str, Any]) -> list[Any]:
    """Return the examples that a schema states for the whole value, of those that it accepts; all of them
    where it accepts none: a document knows its API better than its schema does.
    """
    target = _target(schema, schema)
    listed = target.get("examples")
    found = list(listed[:_MAX_EXAMPLES]) if isinstance(listed, list) else []
    for word in ("example", "const", "default"):
        if not found and word in target:
            found = [target[word]]
    validator = _validator(schema)
    if validator is None:
        return found
    return [one for one in found if validator.violations(one, max_pointers=1).count == 0] or found


def value_of_schema(schema: Mapping[str, Any], *, seed: int) -> Any:
    """Return a value that the schema accepts; the one with the fewest violations where none is found.

    Raise BudgetExceeded where what the schema requires has more than 10,000 values, 262,144 characters or
    64 levels, or takes more than two seconds of CPU time.
    """
    budget = Budget(values=_MAX_VALUES, characters=_MAX_CHARACTERS, levels=_MAX_LEVELS)
    validator = _validator(schema)
    best: Any = None
    fewest = None
    exceeded: list[BudgetExceeded] = []
    for attempt in range(_ATTEMPTS):
        is_sparse = attempt >= _ATTEMPTS // 2
        if exceeded and not is_sparse:
            continue
        budget.renew()
        try:
            value = _Values(schema, Random(f"{seed}/{attempt}"), budget, sparse=is_sparse).of(schema)  # noqa: S311
        except BudgetExceeded as error:
            exceeded.append(error)
            # A slower machine must not choose another value.
            if error.limit == "seconds" or len(exceeded) > _MAX_EXCEEDED:
                raise
            continue
        if validator is None:
            return value
        count = validator.violations(value, max_pointers=1).count
        if count == 0:
            return value
        if fewest is None or count < fewest:
            best, fewest = value, count
        budget.check_time()
    if fewest is None and exceeded:
        raise exceeded[0]
    return best


def _validator(schema: Mapping[str, Any]) -> OutputValidator | None:
    try:
        return OutputValidator(schema)
    except InvalidInput:
        return None


def _target(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema that references lead to, with what stands beside them."""
    beside: dict[str, Any] = {}
    for _ in range(_MAX_DEPTH):
        if not isinstance(schema, Mapping):
            return beside
        if not isinstance(schema.get("$ref"), str):
            break
        beside = {**{key: one for key, one in schema.items() if key != "$ref"}, **beside}
        try:
            schema = resolve(root, schema["$ref"])
        except LookupError:
            return beside
    return _both(schema, beside) if beside else schema


def _both(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema with the keywords of two; the greater of two lower bounds, and so on."""
    merged = {**one, **other}
    for word in _MERGED:
        if isinstance(one.get(word), Mapping) and isinstance(other.get(word), Mapping):
            merged[word] = {**one[word], **other[word]}
    if isinstance(one.get("required"), list) and isinstance(other.get("required"), list):
        merged["required"] = [*one["required"], *other["required"]]
    for word, choose in (("minimum", max), ("minLength", max), ("minItems", max)):
        if _is_number(one.get(word)) and _is_number(other.get(word)):
            merged[word] = choose(one[word], other[word])
    for word in ("maximum", "maxLength", "maxItems"):
        if _is_number(one.get(word)) and _is_number(other.get(word)):
            merged[word] = min(one[word], other[word])
    if isinstance(one.get("enum"), list) and isinstance(other.get("enum"), list):
        merged["enum"] = exact_json.keep_common(one["enum"], other["enum"]) or one["enum"]
    return merged


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class _Values:
    """Makes one value; with `sparse`, objects have their required members only."""

    def __init__(self, root: Mapping[str, Any], random: Random, budget: Budget, *, sparse: bool) -> None:
        self._root = root
        self._random = random
        self._budget = budget
        self._sparse = sparse

    def of(self, schema: Any, *, name: str = "", depth: int = 0) -> Any:
        """Return a value; raise BudgetExceeded."""
        self._budget.spend(values=1, characters=len(name), level=depth)
        if not isinstance(schema, Mapping):
            return self._any(schema)
        found = self._combined(schema, depth)
        if found.get("format") == "password" or (is_secret_name(name) and "string" in _types(found)):
            return _MASK
        if "const" in found:
            return self._stated(found["const"])
        if isinstance(found.get("enum"), list) and found["enum"]:
            return self._stated(self._random.choice(found["enum"]))
        examples = found.get("examples")
        listed = examples if isinstance(examples, list) else [found["example"]] if "example" in found else []
        if listed and depth and not is_secret_name(name) and len(_dumped(listed[0])) <= _MAX_LENGTH:
            return self._stated(self._random.choice(listed[:_MAX_EXAMPLES]))
        return self._typed(found, name, depth)

    def _stated(self, value: Any) -> Any:
        """Return a value that the schema states, which counts with its size."""
        if isinstance(value, str | list | dict):
            self._budget.spend(characters=len(_dumped(value)))
        return value

    def _any(self, schema: Any) -> Any:
        return self._random.choice(_WORDS) if schema is not False else None

    def _combined(self, schema: Mapping[str, Any], depth: int) -> Mapping[str, Any]:
        """Return a schema without references and combinations: of alternatives, one is chosen."""
        found: Mapping[str, Any] = _target(schema, self._root)
        for _ in range(_MAX_DEPTH):
            if isinstance(found.get("allOf"), list):
                parts, found = found["allOf"], {key: one for key, one in found.items() if key != "allOf"}
                for part in parts:
                    self._budget.check_time()
                    found = _both(found, _target(part, self._root))
                continue
            word = next((one for one in ("oneOf", "anyOf") if isinstance(found.get(one), list)), None)
            if word is None or not found[word]:
                break
            branches = [_target(one, self._root) for one in found[word]]
            plain = [one for one in branches if not _is_compound(one)]
            chosen = self._random.choice(plain if plain and self._is_deep(depth) else branches)
            found = _both({key: one for key, one in found.items() if key != word}, chosen)
        return found

    def _is_deep(self, depth: int) -> bool:
        return depth >= _MAX_DEPTH or self._budget.values < _MAX_VALUES - _MAX_OPTIONAL

    def _typed(self, schema: Mapping[str, Any], name: str, depth: int) -> Any:
        kinds = _types(schema)
        if "null" in kinds and (self._is_deep(depth) or len(kinds) == 1):
            return None
        chosen = self._random.choice([one for one in kinds if one != "null"])
        if chosen == "object":
            return self._object(schema, depth)
        if chosen == "array":
            return self._array(schema, name, depth)
        if chosen == "integer":
            return self._integer(schema)
        if chosen == "number":
            return self._number(schema)
        return self._random.random() < 0.5 if chosen == "boolean" else self._string(schema)

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        listed = schema.get("required")
        required = dict.fromkeys(
            one for one in (listed if isinstance(listed, list) else ()) if isinstance(one, str)
        )
        properties = schema.get("properties")
        properties = properties if isinstance(properties, Mapping) else {}
        made: dict[str, Any] = {}
        for name, member in properties.items():
            optional = name not in required
            if optional and (self._sparse or self._is_deep(depth) or _is_write_only(member)):
                continue
            made[name] = self.of(member, name=name, depth=depth + 1)
        rest = schema.get("additionalProperties")
        for name in required:
            if name not in made:
                made[name] = self.of(rest if isinstance(rest, Mapping) else {}, name=name, depth=depth + 1)
        least = schema.get("minProperties") if _is_number(schema.get("minProperties")) else 0
        wanted = int(least or 0)
        if not properties and isinstance(rest, Mapping) and not self._sparse and not self._is_deep(depth):
            wanted = max(wanted, 1)
        number = 0
        while len(made) < wanted:
            name = f"{_WORDS[number % len(_WORDS)]}{number or ''}"
            number += 1
            if name not in made:
                made[name] = self.of(rest if isinstance(rest, Mapping) else {}, depth=depth + 1)
        return made

    def _array(self, schema: Mapping[str, Any], name: str, depth: int) -> list[Any]:
        least = int(schema["minItems"]) if _is_number(schema.get("minItems")) else 0
        most = int(schema["maxItems"]) if _is_number(schema.get("maxItems")) else max(least, 3)
        first = schema.get("prefixItems")
        first = first if isinstance(first, list) else []
        count = (
            least
            if self._sparse or self._is_deep(depth)
            else self._random.randint(
                min(max(least, 1), most), max(min(most, max(least, 3)), min(max(least, 1), most))
            )
        )
        made: list[Any] = []
        seen: set[bytes] = set()
        for _ in range(count * 3):
            if len(made) >= count:
                break
            at = len(made)
            item = self.of(
                first[at] if at < len(first) else schema.get("items", {}), name=name, depth=depth + 1
            )
            if schema.get("uniqueItems") is True:
                if _dumped(item) in seen:
                    continue
                seen.add(_dumped(item))
            made.append(item)
        return made

    def _integer(self, schema: Mapping[str, Any]) -> int:
        low, high = self._bounds(schema, step=1)
        step = schema.get("multipleOf")
        if isinstance(step, int) and not isinstance(step, bool) and step > 0:
            begin, end = -(-int(low) // step), int(high) // step
            return self._random.randint(begin, max(begin, end)) * step
        return self._random.randint(int(low), max(int(low), int(high)))

    def _number(self, schema: Mapping[str, Any]) -> int | float:
        low, high = self._bounds(schema, step=0.25)
        step: Any = schema.get("multipleOf")
        if _is_number(step) and step > 0 and not math.isfinite(max(abs(low), abs(high)) / step):
            return low
        if _is_number(step) and step > 0:
            begin = int(low // step) + (1 if low % step else 0)
            count = self._random.randint(begin, max(begin, int(high // step)))
            return float(round(count * step, 10))
        return round(low + (high - low) * self._random.random(), 2 if high - low >= 0.1 else 12)

    def _bounds(self, schema: Mapping[str, Any], *, step: float) -> tuple[float, float]:
        lows = [schema["minimum"]] if _is_number(schema.get("minimum")) else []
        if _is_number(schema.get("exclusiveMinimum")):
            lows.append(schema["exclusiveMinimum"] + step)
        highs = [schema["maximum"]] if _is_number(schema.get("maximum")) else []
        if _is_number(schema.get("exclusiveMaximum")):
            highs.append(schema["exclusiveMaximum"] - step)
        low = max(lows) if lows else min(0, *highs) if highs else 0
        high = min(highs) if highs else low + 1_000
        return low, max(low, min(high, low + 1_000_000))

    def _string(self, schema: Mapping[str, Any]) -> str:
        least = int(schema["minLength"]) if _is_number(schema.get("minLength")) else 0
        most = int(schema["maxLength"]) if _is_number(schema.get("maxLength")) else max(least, _MAX_LENGTH)
        made = self._formatted(str(schema.get("format", "")))
        if made is not None:
            return made
        if isinstance(schema.get("pattern"), str):
            return _PatternText(self._random, self._budget).of(schema["pattern"])
        self._budget.spend(characters=max(least, 0))
        words = [self._random.choice(_WORDS) for _ in range(2)]
        length = len(words[0]) + 1 + len(words[1])
        while length < least:
            words.append(self._random.choice(_WORDS))
            length += 1 + len(words[-1])
        return " ".join(words)[:most]

    def _formatted(self, name: str) -> str | None:
        draw = self._random.randint
        day = f"{draw(2020, 2026):04}-{draw(1, 12):02}-{draw(1, 28):02}"
        clock = f"{draw(0, 23):02}:{draw(0, 59):02}:{draw(0, 59):02}Z"
        word = self._random.choice(_WORDS)
        made = {
            "date": day,
            "date-time": f"{day}T{clock}",
            "time": clock,
            "duration": f"PT{draw(1, 59)}M",
            "uuid": str(UUID(int=self._random.getrandbits(128), version=4)),
            "email": f"{word}@example.com",
            "idn-email": f"{word}@example.com",
            "hostname": f"{word}.example.com",
            "idn-hostname": f"{word}.example.com",
            "uri": f"https://example.com/{word}",
            "url": f"https://example.com/{word}",
            "iri": f"https://example.com/{word}",
            "uri-reference": f"/{word}",
            "iri-reference": f"/{word}",
            "ipv4": f"192.0.2.{draw(1, 254)}",
            "ipv6": f"2001:db8::{draw(1, 65535):x}",
            "json-pointer": f"/{word}",
            "byte": "YW1iZXI=",
            "regex": "^[a-z]+$",
        }
        return made.get(name)


class _PatternText:
    """Makes a text that a regular expression matches, of the constructs that schemas usually have."""

    def __init__(self, random: Random, budget: Budget) -> None:
        self._random = random
        self._budget = budget

    def of(self, pattern: str) -> str:
        """Return the text; a word where the pattern cannot be read. Raise BudgetExceeded."""
        try:
            return "".join(self._sequence(pattern, 0, len(pattern)))
        except (ValueError, IndexError, RecursionError):
            return self._random.choice(_WORDS)

    def _sequence(self, pattern: str, at: int, end: int) -> list[str]:
        branches = _branches(pattern, at, end)
        at, end = self._random.choice(branches)
        made: list[str] = []
        while at < end:
            if pattern[at] in "^$":
                at += 1
                continue
            begin, at = at, _atom_end(pattern, at)
            least, most, at = _repetition(pattern, at)
            count = self._random.randint(least, max(least, min(most, least + 8)))
            self._budget.spend(characters=count)
            for _ in range(count):
                self._budget.check_time()
                made.append(self._atom(pattern, begin))
        return made

    def _atom(self, pattern: str, at: int) -> str:
        first = pattern[at]
        if first == "(":
            begin = at + 1
            if pattern.startswith("?", begin):
                found = re.compile(r"\?(?::|P?<[A-Za-z_]\w*>)").match(pattern, begin)
                if found is None:
                    raise ValueError(pattern)
                begin = found.end()
            return "".join(self._sequence(pattern, begin, _atom_end(pattern, at) - 1))
        if first == "[":
            return self._random.choice(_class_characters(pattern[at + 1 : _atom_end(pattern, at) - 1]))
        if first == "\\":
            return self._random.choice(_escaped(pattern[at + 1]))
        return self._random.choice(string.ascii_lowercase) if first == "." else first


def _branches(pattern: str, at: int, end: int) -> list[tuple[int, int]]:
    """Return where the alternatives of a part of a pattern begin and end."""
    found, begin = [], at
    while at < end:
        if pattern[at] == "|":
            found.append((begin, at))
            begin = at = at + 1
        else:
            at = _atom_end(pattern, at)
    return [*found, (begin, end)]


def _atom_end(pattern: str, at: int) -> int:
    first = pattern[at]
    if first == "\\":
        return at + 2
    if first == "[":
        at += 2 if pattern[at + 1] == "^" else 1
        at += 1 if pattern[at] == "]" else 0
        while pattern[at] != "]":
            at += 2 if pattern[at] == "\\" else 1
        return at + 1
    if first == "(":
        at += 1
        while pattern[at] != ")":
            at = _atom_end(pattern, at)
        return at + 1
    return at + 1


def _repetition(pattern: str, at: int) -> tuple[int, int, int]:
    """Return how often what precedes is repeated, at least and at most, and where the repetition ends."""
    found = re.compile(r"(?:\{(\d+)(,?)(\d*)\}|([*+?]))[?+]?").match(pattern, at)
    if found is None:
        return 1, 1, at
    if found[4]:
        return {"*": (0, 8), "+": (1, 8), "?": (0, 1)}[found[4]] + (found.end(),)
    least = int(found[1])
    most = int(found[3]) if found[3] else least + 8 if found[2] else least
    return least, most, found.end()


def _class_characters(inner: str) -> str:
    """Return characters of a class such as `a-z0-9_`."""
    negated = inner.startswith("^")
    inner = inner[1:] if negated else inner
    found = ""
    at = 0
    while at < len(inner):
        if inner[at] == "\\":
            found += _escaped(inner[at + 1])
            at += 2
        elif at + 2 < len(inner) and inner[at + 1] == "-":
            low, high = ord(inner[at]), ord(inner[at + 2])
            found += "".join(map(chr, range(low, min(high, low + 200) + 1)))
            at += 3
        else:
            found += inner[at]
            at += 1
    if negated:
        found = "".join(one for one in string.ascii_letters + string.digits + "-_ " if one not in found)
    if not found:
        raise ValueError(inner)
    return found


def _escaped(character: str) -> str:
    known = {
        "d": string.digits,
        "w": f"{string.ascii_letters}{string.digits}_",
        "s": " ",
        "t": "\t",
        "n": "\n",
    }
    if character in known:
        return known[character]
    if character in {"D", "W", "S"}:
        return {"D": string.ascii_letters, "W": " -", "S": string.ascii_letters}[character]
    if character.isalnum():
        # A class of Unicode, a boundary or a reference.
        raise ValueError(character)
    return character


def _types(schema: Mapping[str, Any]) -> list[str]:
    kinds = schema.get("type")
    if isinstance(kinds, str):
        return [kinds]
    if isinstance(kinds, list) and kinds:
        return [one for one in kinds if isinstance(one, str)]
    if any(word in schema for word in ("properties", "required", "additionalProperties", "minProperties")):
        return ["object"]
    if any(word in schema for word in ("items", "prefixItems", "minItems")):
        return ["array"]
    if any(word in schema for word in ("minimum", "maximum", "multipleOf", "exclusiveMinimum")):
        return ["number"]
    return ["string"]


def _is_compound(schema: Mapping[str, Any]) -> bool:
    return bool({"object", "array"} & set(_types(schema)))


def _is_write_only(schema: Any) -> bool:
    return isinstance(schema, Mapping) and schema.get("writeOnly") is True


def _dumped(value: Any) -> bytes:
    return exact_json.dumps(value, orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS, default=str)
