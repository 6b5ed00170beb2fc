"""Media types (RFC 9110 section 8.3.1), and which of them a media range of Accept includes (section 12.5.1).

Each function takes a media type as it stands in a header: in upper or lower case, with or without parameters.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_JSON: Final = frozenset({"application/json", "text/json"})
_TEXTUAL_WORDS: Final = (
    "yaml", "javascript", "x-www-form-urlencoded", "graphql", "ndjson", "jsonl", "json-lines",
    "json-seq", "toml",
)  # fmt: skip
_TEXTUAL: Final = frozenset(
    "application/" + name
    for name in (
        *("ecmascript", "sql", "sparql-query", "sparql-update", "jwt", "jose", "x-sh", "csv", "n-triples"),
        *("n-quads", "trig"),
    )
)


def parse_essence(media_type: str) -> str:
    """Return a media type without its parameters, in lower case."""
    return media_type.partition(";")[0].strip().lower()


def is_json(media_type: str) -> bool:
    """Return whether a body of the type is JSON: `application/json`, `text/json`, `*+json` (RFC 6839)."""
    essence = parse_essence(media_type)
    return essence in _JSON or essence.endswith("+json")


def may_be_json(declared: str) -> bool:
    """Return whether a declared type is JSON, or a range that includes it (`*/*`, `application/*`)."""
    return is_json(declared) or includes(declared, "application/json")


def is_xml(media_type: str) -> bool:
    """Return whether a body of the type is XML: `application/xml`, `text/xml`, `*+xml` (RFC 7303)."""
    return parse_essence(media_type).endswith(("/xml", "+xml"))


def is_textual(media_type: str) -> bool:
    """Return whether a body of the type is text, by the type's name; JSON, XML and forms are text.

    Files of Office are none, although their types have "openxml" in them: they are zip archives.
    """
    essence = parse_essence(media_type)
    if essence.startswith(("text/", "application/xml")) or essence.endswith("xml") or is_json(essence):
        return True
    return essence in _TEXTUAL or any(word in essence for word in _TEXTUAL_WORDS)


def includes(media_range: str, media_type: str) -> bool:
    """Return whether a media range (`*/*`, `text/*`, or a type itself) includes a media type.

    Parameters of the range must be among those of the type; its weight (`q`) does not count.
    """
    return MediaRange.parse(media_range).includes(media_type)


@dataclass(frozen=True, slots=True)
class MediaRange:
    """A media range of Accept: `essence` is in lower case, `weight` from 0 (not acceptable) to 1."""

    essence: str
    parameters: frozenset[tuple[str, str]] = frozenset()
    weight: float = 1.0

    @classmethod
    def parse(cls, text: str) -> "MediaRange":
        """Return a media range; a weight that is no number is 0."""
        parameters = _parse_parameters(text)
        weight = 1.0
        for name, value in parameters:
            if name == "q":
                weight = _parse_weight(value)
                break
        others = frozenset(pair for pair in parameters if pair[0] != "q")
        return cls(parse_essence(text), others, weight)

    @property
    def specificity(self) -> tuple[bool, bool, int]:
        """The order of ranges that include one type: the greatest one decides."""
        kind, _, subtype = self.essence.partition("/")
        return kind != "*", subtype != "*", len(self.parameters)

    def includes(self, media_type: str) -> bool:
        """Return whether a media type is in this range, whatever its weight."""
        essence = parse_essence(media_type)
        if self.essence not in (essence, f"{essence.partition('/')[0]}/*", "*/*"):
            return False
        return not self.parameters or self.parameters <= frozenset(_parse_parameters(media_type))


def parse_accept(accept: str) -> list[MediaRange]:
    """Return the media ranges of an Accept header in its order."""
    return [MediaRange.parse(text) for text in accept.split(",") if text.strip()]


def weigh(media_type: str, ranges: Sequence[MediaRange]) -> float:
    """Return the weight of the most specific range that includes a media type; 0 where none does."""
    including = [media_range for media_range in ranges if media_range.includes(media_type)]
    return max(including, key=lambda media_range: media_range.specificity).weight if including else 0.0


def choose_media_type(accept: str, offers: Sequence[str]) -> str:
    """Return the offered media type of the highest weight; the first offer where several or none match."""
    ranges = parse_accept(accept)
    return max(offers, key=lambda offer: weigh(offer, ranges))


def _parse_parameters(text: str) -> list[tuple[str, str]]:
    pairs = (parameter.partition("=") for parameter in text.split(";")[1:] if parameter.strip())
    return [(name.strip().lower(), value.strip().strip('"').lower()) for name, _, value in pairs]


def _parse_weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        return 0.0
    # Also false for what is not a number.
    return min(weight, 1.0) if weight > 0 else 0.0
