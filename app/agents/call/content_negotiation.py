"""Parsing of the Accept header, cached by its text (RFC 9110 section 12.5.1)."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from app.formats.toolclad.envelope import MEDIA_TYPE as ENVELOPE
from app.outbound.framing import EVENT_MEDIA_TYPES, JSON_LINES_MEDIA_TYPES, SSE_MEDIA_TYPE

_EVENT_FORMATS: Final = JSON_LINES_MEDIA_TYPES | {SSE_MEDIA_TYPE}
_JSON: Final = "application/json"
VALUES_PARAMETER: Final = "form=values"
"""The parameter of a media type of JSON lines by which a client requests the values of events alone."""


@dataclass(frozen=True, slots=True)
class AcceptedTypes:
    """The media ranges that a client accepts.

    `ranges` have a weight above 0; `events` is the media type for a response as events, "" for none, and
    `only_values` whether the events are to be their values alone. `envelope` says that the client lists the
    evidence envelope of a ToolClad tool, `only_envelope` that it accepts no other form of a response.
    """

    ranges: frozenset[str]
    events: str
    only_values: bool
    envelope: bool
    only_envelope: bool

    def only_json(self, media: str) -> bool:
        """Return whether the client accepts JSON, but not a response of this media type unless it is JSON.

        `media` is the media type of the upstream's response, in lower case without parameters.
        """
        if _JSON not in self.ranges or "*/*" in self.ranges:
            return False
        # The body of a response that claims to be JSON is verified.
        return media == _JSON or self.ranges.isdisjoint((media, f"{media.partition('/')[0]}/*"))

    def as_events(self, media: str) -> bool:
        """Return whether a response of this media type is sent as events to a client that accepts events.

        One that does not consist of events is sent whole where the client also accepts its type or JSON.
        """
        return media in EVENT_MEDIA_TYPES or self.ranges.isdisjoint(
            (_JSON, "*/*", media, f"{media.partition('/')[0]}/*")
        )


@lru_cache(maxsize=256)
def parse_accept(accept: str) -> AcceptedTypes:
    """Return what an Accept header accepts.

    Of several formats of events, `events` is the one with the highest weight, or the first of these.
    """
    weights: dict[str, float] = {}
    only_values: dict[str, bool] = {}
    for item in accept.lower().split(","):
        media, *parameters = (part.strip() for part in item.split(";"))
        weight = _weight(parameters)
        if media and weight > 0:
            weights[media] = weight
            only_values[media] = media in JSON_LINES_MEDIA_TYPES and VALUES_PARAMETER in parameters
    formats = [media for media in weights if media in _EVENT_FORMATS]
    events = max(formats, key=lambda media: weights[media], default="")
    return AcceptedTypes(
        frozenset(weights),
        events,
        only_values.get(events, False),
        envelope=ENVELOPE in weights,
        only_envelope=weights.keys() == {ENVELOPE},
    )


def _weight(parameters: list[str]) -> float:
    for parameter in parameters:
        if parameter.startswith("q="):
            try:
                return min(float(parameter[2:]), 1.0)
            except ValueError:
                return 1.0
    return 1.0
