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


def list_stated_examples(schema: Mapping[str, Any]) -> list[Any]:
    """Return the examples that a schema states for the whole value, of those that it accepts; all of them
    where it accepts none: a document knows its API better than its schema does.
    """
    target = _follow_target(schema, schema)
    listed = target.get("examples")
    examples = list(listed[:_MAX_EXAMPLES]) if isinstance(listed, list) else []
    for word in ("example", "const", "default"):
        if not examples and word in target:
            examples = [target[word]]
    validator = _compile_validator(schema)
    if validator is None:
        return examples
    return [one for one in examples if validator.find_violations(one, max_pointers=1).count == 0] or examples


def generate_value(schema: Mapping[str, Any], *, seed: int) -> Any:
    """Return a value that the schema accepts; the one with the fewest violations where none is found.

    Raise BudgetExceeded where what the schema requires has more than 10,000 values, 262,144 characters or
    64 levels, or takes more than two seconds of CPU time.
    """
    budget = Budget(values=_MAX_VALUES, characters=_MAX_CHARACTERS, levels=_MAX_LEVELS)
    validator = _compile_validator(schema)
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
        count = validator.find_violations(value, max_pointers=1).count
        if count == 0:
            return value
        if fewest is None or count < fewest:
            best, fewest = value, count
        budget.check_time()
    if fewest is None and exceeded:
        raise exceeded[0]
    return best


def _compile_validator(schema: Mapping[str, Any]) -> OutputValidator | None:
    try:
        return OutputValidator(schema)
    except InvalidInput:
        return None


def _follow_target(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
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
    return _merge_two(schema, beside) if beside else schema


def _merge_two(first: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema with the keywords of two; the greater of two lower bounds, and so on."""
    merged = {**first, **other}
    for word in _MERGED:
        if isinstance(first.get(word), Mapping) and isinstance(other.get(word), Mapping):
            merged[word] = {**first[word], **other[word]}
    if isinstance(first.get("required"), list) and isinstance(other.get("required"), list):
        merged["required"] = [*first["required"], *other["required"]]
    for word, choose in (("minimum", max), ("minLength", max), ("minItems", max)):
        if _is_number(first.get(word)) and _is_number(other.get(word)):
            merged[word] = choose(first[word], other[word])
    for word in ("maximum", "maxLength", "maxItems"):
        if _is_number(first.get(word)) and _is_number(other.get(word)):
            merged[word] = min(first[word], other[word])
    if isinstance(first.get("enum"), list) and isinstance(other.get("enum"), list):
        merged["enum"] = exact_json.keep_common(first["enum"], other["enum"]) or first["enum"]
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
            return self._choose_any(schema)
        combined = self._combine(schema, depth)
        if combined.get("format") == "password" or (
            is_secret_name(name) and "string" in _list_types(combined)
        ):
            return _MASK
        if "const" in combined:
            return self._spend_stated(combined["const"])
        if isinstance(combined.get("enum"), list) and combined["enum"]:
            return self._spend_stated(self._random.choice(combined["enum"]))
        examples = combined.get("examples")
        listed = (
            examples if isinstance(examples, list) else [combined["example"]] if "example" in combined else []
        )
        if listed and depth and not is_secret_name(name) and len(_dump(listed[0])) <= _MAX_LENGTH:
            return self._spend_stated(self._random.choice(listed[:_MAX_EXAMPLES]))
        return self._generate_typed(combined, name, depth)

    def _spend_stated(self, value: Any) -> Any:
        """Return a value that the schema states, which counts with its size."""
        if isinstance(value, str | list | dict):
            self._budget.spend(characters=len(_dump(value)))
        return value

    def _choose_any(self, schema: Any) -> Any:
        return self._random.choice(_WORDS) if schema is not False else None

    def _combine(self, schema: Mapping[str, Any], depth: int) -> Mapping[str, Any]:
        """Return a schema without references and combinations: of alternatives, one is chosen."""
        combined: Mapping[str, Any] = _follow_target(schema, self._root)
        for _ in range(_MAX_DEPTH):
            if isinstance(combined.get("allOf"), list):
                parts, combined = (
                    combined["allOf"],
                    {key: one for key, one in combined.items() if key != "allOf"},
                )
                for part in parts:
                    self._budget.check_time()
                    combined = _merge_two(combined, _follow_target(part, self._root))
                continue
            word = next((one for one in ("oneOf", "anyOf") if isinstance(combined.get(one), list)), None)
            if word is None or not combined[word]:
                break
            branches = [_follow_target(one, self._root) for one in combined[word]]
            plain = [one for one in branches if not _is_compound(one)]
            chosen = self._random.choice(plain if plain and self._is_deep(depth) else branches)
            combined = _merge_two({key: one for key, one in combined.items() if key != word}, chosen)
        return combined

    def _is_deep(self, depth: int) -> bool:
        return depth >= _MAX_DEPTH or self._budget.values < _MAX_VALUES - _MAX_OPTIONAL

    def _generate_typed(self, schema: Mapping[str, Any], name: str, depth: int) -> Any:
        kinds = _list_types(schema)
        if "null" in kinds and (self._is_deep(depth) or len(kinds) == 1):
            return None
        chosen = self._random.choice([one for one in kinds if one != "null"])
        if chosen == "object":
            return self._generate_object(schema, depth)
        if chosen == "array":
            return self._generate_array(schema, name, depth)
        if chosen == "integer":
            return self._generate_integer(schema)
        if chosen == "number":
            return self._generate_number(schema)
        return self._random.random() < 0.5 if chosen == "boolean" else self._generate_string(schema)

    def _generate_object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        listed = schema.get("required")
        required = dict.fromkeys(
            one for one in (listed if isinstance(listed, list) else ()) if isinstance(one, str)
        )
        properties = schema.get("properties")
        properties = properties if isinstance(properties, Mapping) else {}
        members: dict[str, Any] = {}
        for name, member in properties.items():
            optional = name not in required
            if optional and (self._sparse or self._is_deep(depth) or _is_write_only(member)):
                continue
            members[name] = self.of(member, name=name, depth=depth + 1)
        rest = schema.get("additionalProperties")
        for name in required:
            if name not in members:
                members[name] = self.of(rest if isinstance(rest, Mapping) else {}, name=name, depth=depth + 1)
        least = schema.get("minProperties") if _is_number(schema.get("minProperties")) else 0
        wanted = int(least or 0)
        if not properties and isinstance(rest, Mapping) and not self._sparse and not self._is_deep(depth):
            wanted = max(wanted, 1)
        number = 0
        while len(members) < wanted:
            name = f"{_WORDS[number % len(_WORDS)]}{number or ''}"
            number += 1
            if name not in members:
                members[name] = self.of(rest if isinstance(rest, Mapping) else {}, depth=depth + 1)
        return members

    def _generate_array(self, schema: Mapping[str, Any], name: str, depth: int) -> list[Any]:
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
        items: list[Any] = []
        seen: set[bytes] = set()
        for _ in range(count * 3):
            if len(items) >= count:
                break
            index = len(items)
            item = self.of(
                first[index] if index < len(first) else schema.get("items", {}), name=name, depth=depth + 1
            )
            if schema.get("uniqueItems") is True:
                if _dump(item) in seen:
                    continue
                seen.add(_dump(item))
            items.append(item)
        return items

    def _generate_integer(self, schema: Mapping[str, Any]) -> int:
        low, high = self._choose_bounds(schema, step=1)
        step = schema.get("multipleOf")
        if isinstance(step, int) and not isinstance(step, bool) and step > 0:
            begin, end = -(-int(low) // step), int(high) // step
            return self._random.randint(begin, max(begin, end)) * step
        return self._random.randint(int(low), max(int(low), int(high)))

    def _generate_number(self, schema: Mapping[str, Any]) -> int | float:
        low, high = self._choose_bounds(schema, step=0.25)
        step: Any = schema.get("multipleOf")
        if _is_number(step) and step > 0 and not math.isfinite(max(abs(low), abs(high)) / step):
            return low
        if _is_number(step) and step > 0:
            begin = int(low // step) + (1 if low % step else 0)
            count = self._random.randint(begin, max(begin, int(high // step)))
            return float(round(count * step, 10))
        return round(low + (high - low) * self._random.random(), 2 if high - low >= 0.1 else 12)

    def _choose_bounds(self, schema: Mapping[str, Any], *, step: float) -> tuple[float, float]:
        lows = [schema["minimum"]] if _is_number(schema.get("minimum")) else []
        if _is_number(schema.get("exclusiveMinimum")):
            lows.append(schema["exclusiveMinimum"] + step)
        highs = [schema["maximum"]] if _is_number(schema.get("maximum")) else []
        if _is_number(schema.get("exclusiveMaximum")):
            highs.append(schema["exclusiveMaximum"] - step)
        low = max(lows) if lows else min(0, *highs) if highs else 0
        high = min(highs) if highs else low + 1_000
        return low, max(low, min(high, low + 1_000_000))

    def _generate_string(self, schema: Mapping[str, Any]) -> str:
        least = int(schema["minLength"]) if _is_number(schema.get("minLength")) else 0
        most = int(schema["maxLength"]) if _is_number(schema.get("maxLength")) else max(least, _MAX_LENGTH)
        formatted = self._generate_formatted(str(schema.get("format", "")))
        if formatted is not None:
            return formatted
        if isinstance(schema.get("pattern"), str):
            return _PatternText(self._random, self._budget).of(schema["pattern"])
        self._budget.spend(characters=max(least, 0))
        words = [self._random.choice(_WORDS) for _ in range(2)]
        length = len(words[0]) + 1 + len(words[1])
        while length < least:
            words.append(self._random.choice(_WORDS))
            length += 1 + len(words[-1])
        return " ".join(words)[:most]

    def _generate_formatted(self, name: str) -> str | None:
        draw = self._random.randint
        day = f"{draw(2020, 2026):04}-{draw(1, 12):02}-{draw(1, 28):02}"
        clock = f"{draw(0, 23):02}:{draw(0, 59):02}:{draw(0, 59):02}Z"
        word = self._random.choice(_WORDS)
        values = {
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
        return values.get(name)


class _PatternText:
    """Makes a text that a regular expression matches, of the constructs that schemas usually have."""

    def __init__(self, random: Random, budget: Budget) -> None:
        self._random = random
        self._budget = budget

    def of(self, pattern: str) -> str:
        """Return the text; a word where the pattern cannot be read. Raise BudgetExceeded."""
        try:
            return "".join(self._generate_sequence(pattern, 0, len(pattern)))
        except (ValueError, IndexError, RecursionError):
            return self._random.choice(_WORDS)

    def _generate_sequence(self, pattern: str, position: int, end: int) -> list[str]:
        branches = _list_branches(pattern, position, end)
        position, end = self._random.choice(branches)
        texts: list[str] = []
        while position < end:
            if pattern[position] in "^$":
                position += 1
                continue
            begin, position = position, _find_atom_end(pattern, position)
            least, most, position = _read_repetition(pattern, position)
            count = self._random.randint(least, max(least, min(most, least + 8)))
            self._budget.spend(characters=count)
            for _ in range(count):
                self._budget.check_time()
                texts.append(self._generate_atom(pattern, begin))
        return texts

    def _generate_atom(self, pattern: str, position: int) -> str:
        first = pattern[position]
        if first == "(":
            begin = position + 1
            if pattern.startswith("?", begin):
                group = re.compile(r"\?(?::|P?<[A-Za-z_]\w*>)").match(pattern, begin)
                if group is None:
                    raise ValueError(pattern)
                begin = group.end()
            return "".join(self._generate_sequence(pattern, begin, _find_atom_end(pattern, position) - 1))
        if first == "[":
            return self._random.choice(
                _list_class_characters(pattern[position + 1 : _find_atom_end(pattern, position) - 1])
            )
        if first == "\\":
            return self._random.choice(_list_escaped(pattern[position + 1]))
        return self._random.choice(string.ascii_lowercase) if first == "." else first


def _list_branches(pattern: str, position: int, end: int) -> list[tuple[int, int]]:
    """Return where the alternatives of a part of a pattern begin and end."""
    branches, begin = [], position
    while position < end:
        if pattern[position] == "|":
            branches.append((begin, position))
            begin = position = position + 1
        else:
            position = _find_atom_end(pattern, position)
    return [*branches, (begin, end)]


def _find_atom_end(pattern: str, position: int) -> int:
    first = pattern[position]
    if first == "\\":
        return position + 2
    if first == "[":
        position += 2 if pattern[position + 1] == "^" else 1
        position += 1 if pattern[position] == "]" else 0
        while pattern[position] != "]":
            position += 2 if pattern[position] == "\\" else 1
        return position + 1
    if first == "(":
        position += 1
        while pattern[position] != ")":
            position = _find_atom_end(pattern, position)
        return position + 1
    return position + 1


def _read_repetition(pattern: str, position: int) -> tuple[int, int, int]:
    """Return how often what precedes is repeated, at least and at most, and where the repetition ends."""
    match = re.compile(r"(?:\{(\d+)(,?)(\d*)\}|([*+?]))[?+]?").match(pattern, position)
    if match is None:
        return 1, 1, position
    if match[4]:
        return {"*": (0, 8), "+": (1, 8), "?": (0, 1)}[match[4]] + (match.end(),)
    least = int(match[1])
    most = int(match[3]) if match[3] else least + 8 if match[2] else least
    return least, most, match.end()


def _list_class_characters(inner: str) -> str:
    """Return characters of a class such as `a-z0-9_`."""
    negated = inner.startswith("^")
    inner = inner[1:] if negated else inner
    characters = ""
    position = 0
    while position < len(inner):
        if inner[position] == "\\":
            characters += _list_escaped(inner[position + 1])
            position += 2
        elif position + 2 < len(inner) and inner[position + 1] == "-":
            low, high = ord(inner[position]), ord(inner[position + 2])
            characters += "".join(map(chr, range(low, min(high, low + 200) + 1)))
            position += 3
        else:
            characters += inner[position]
            position += 1
    if negated:
        characters = "".join(
            one for one in string.ascii_letters + string.digits + "-_ " if one not in characters
        )
    if not characters:
        raise ValueError(inner)
    return characters


def _list_escaped(character: str) -> str:
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


def _list_types(schema: Mapping[str, Any]) -> list[str]:
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
    return bool({"object", "array"} & set(_list_types(schema)))


def _is_write_only(schema: Any) -> bool:
    return isinstance(schema, Mapping) and schema.get("writeOnly") is True


def _dump(value: Any) -> bytes:
    return exact_json.dumps(value, orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS, default=str)
