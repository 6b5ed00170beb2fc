"""What a client accepts: its Accept header, parsed once for each that is seen (RFC 9110 section 12.5.1)."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from app.outbound.framing import EVENT_MEDIA_TYPES, JSON_LINES_MEDIA_TYPES, SSE_MEDIA_TYPE

_FORMS: Final = JSON_LINES_MEDIA_TYPES | {SSE_MEDIA_TYPE}
_JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class AcceptedTypes:
    """The media ranges with a weight, and the media type for a response as events, "" for none."""

    ranges: frozenset[str]
    events: str

    def only_json(self, media: str) -> bool:
        """Whether the client names application/json, and neither everything nor what the upstream sent."""
        if _JSON not in self.ranges or "*/*" in self.ranges:
            return False
        # A response that says it is JSON goes the way that makes sure of it.
        return media == _JSON or self.ranges.isdisjoint((media, f"{media.partition('/')[0]}/*"))

    def as_events(self, media: str) -> bool:
        """Whether a response of this media type is sent as events, to a client that accepts events.

        What is not made of events is not, where the client accepts it (or JSON) as an ordinary response, too.
        """
        return media in EVENT_MEDIA_TYPES or self.ranges.isdisjoint(
            (_JSON, "*/*", media, f"{media.partition('/')[0]}/*")
        )


@lru_cache(maxsize=256)
def parse_accept(accept: str) -> AcceptedTypes:
    """Return what an Accept header accepts; of several forms of events the heaviest wins, then the first."""
    weights: dict[str, float] = {}
    for item in accept.lower().split(","):
        media, *parameters = (part.strip() for part in item.split(";"))
        weight = _weight(parameters)
        if media and weight > 0:
            weights[media] = weight
    forms = [media for media in weights if media in _FORMS]
    return AcceptedTypes(frozenset(weights), max(forms, key=lambda media: weights[media], default=""))


def _weight(parameters: list[str]) -> float:
    for parameter in parameters:
        if parameter.startswith("q="):
            try:
                return min(float(parameter[2:]), 1.0)
            except ValueError:
                return 1.0
    return 1.0
