"""What an export cannot say in its dialect, and where it says it instead."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from app.core import exact_json
from app.core.text import pointer

Action = Literal["moved-to-description", "dropped", "converted", "inlined", "cut", "renamed"]
Effect = Literal["none", "hint", "looser", "narrower"]
"""For calls: none; the schema says it as text only; it accepts more; it rejects some valid calls."""
Grade = Literal["lossless", "hints", "looser", "narrower", "unsupported"]

_GRADES: Final[Mapping[Effect, Grade]] = {
    "none": "lossless",
    "hint": "hints",
    "looser": "looser",
    "narrower": "narrower",
}
_ORDER: Final[tuple[Effect, ...]] = ("none", "hint", "looser", "narrower")
_MAX_VALUE: Final = 500
_WORDS: Final[Mapping[str, str]] = {
    "minLength": "minimum length",
    "maxLength": "maximum length",
    "minItems": "minimum number of items",
    "maxItems": "maximum number of items",
    "minProperties": "minimum number of members",
    "maxProperties": "maximum number of members",
    "exclusiveMinimum": "greater than",
    "exclusiveMaximum": "less than",
    "multipleOf": "multiple of",
    "contentEncoding": "encoding",
    "contentMediaType": "media type",
    "enum": "one of",
    "const": "always",
    "oneOf": "exactly one of",
    "anyOf": "at least one of",
    "allOf": "all of",
}


@dataclass(frozen=True, slots=True)
class Loss:
    """What became of one keyword of a schema; `pointer` (RFC 6901) is its place in the original schema.

    The gateway validates each call by the original schema, so a looser export lets no invalid call through.
    """

    pointer: str
    keyword: str
    value: Any
    action: Action
    effect: Effect

    def to_json(self) -> dict[str, Any]:
        """Return the loss as a member of the report; a long value is cut."""
        text = exact_json.dumps(self.value)
        value = self.value if len(text) <= _MAX_VALUE else shorten_json(self.value)
        return {
            "pointer": self.pointer,
            "keyword": self.keyword,
            "value": value,
            "action": self.action,
            "effect": self.effect,
            "server_checks": True,
        }


class LossRecorder:
    """Records what an export loses: each loss once, and why the export cannot be strict (`blockers`)."""

    def __init__(self) -> None:
        self.losses: list[Loss] = []
        self.blockers: list[str] = []
        self._seen: set[tuple[str, str, str]] = set()

    def lose(self, location: str, keyword: str, value: Any, action: Action, effect: Effect) -> None:
        """Record what became of a keyword of the schema at the pointer `location`."""
        key = (location, keyword, action)
        if key not in self._seen:
            self._seen.add(key)
            self.losses.append(Loss(pointer(location, keyword), keyword, value, action, effect))

    def block(self, location: str, reason: str) -> None:
        """Record why the schema cannot be strict."""
        self.blockers.append(f"{reason} at {location or '/'}")

    def describe_moved(self, location: str, keyword: str, value: Any, effect: Effect) -> str:
        """Record that a keyword moves to the description; return its sentence."""
        self.lose(location, keyword, value, "moved-to-description", effect)
        return describe_keyword(keyword, value)

    def build_contradiction(self, location: str) -> Callable[[str, Any], None]:
        """Return what records keywords that cannot be merged."""

        def record_loss(keyword: str, value: Any) -> None:
            self.lose(location, keyword, value, "dropped", "looser")

        return record_loss


def grade(losses: tuple[Loss, ...]) -> Grade:
    """Return the grade of an export with these losses: that of the worst."""
    return _GRADES[max((loss.effect for loss in losses), key=_ORDER.index, default="none")]


def shorten_json(value: Any) -> str:
    """Return a value as compact JSON of at most 500 characters."""
    text = exact_json.dumps(value).decode()
    return text if len(text) <= _MAX_VALUE else text[: _MAX_VALUE - 1] + "…"


def describe_keyword(keyword: str, value: Any) -> str:
    """Return what a keyword means, for a description: `minimum length 2`."""
    if keyword == "uniqueItems":
        return "no item twice" if value else ""
    text = value if keyword in ("format", "pattern") and isinstance(value, str) else shorten_json(value)
    return f"{_WORDS.get(keyword, keyword)} {text}"
