"""When responses are decoded and validated: an option of their provider, and what a client prefers."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

DECODE: Final = "decode-response"
VALIDATE: Final = "validate-response"
"""The names of the preferences for responses."""


@dataclass(frozen=True, slots=True)
class ResponseRule:
    """Whether the responses of a tool are decoded and validated, unless the client says otherwise."""

    decode: bool = False
    validate: bool = False

    @classmethod
    def of(cls, stored: Mapping[str, Any] | None, *, tool: str) -> Self:
        """Return the rule in `options.responses` of a provider."""
        if not stored:
            return cls()
        tools = stored.get("tools")
        if tools is not None and tool not in tools:
            return cls()
        return cls(stored.get("decode") is True, stored.get("validate_outputs") is True)


@dataclass(frozen=True, slots=True)
class ResponsePreferences:
    """What a client prefers for the response of its call; None: as the provider's options say."""

    decode: bool | None = None
    validate: bool | None = None


_PREFERENCE: Final = re.compile(r'\s*+([a-z-]++)\s*+(?:=\s*+"?([a-z]*+)"?\s*+)?(?:;.*)?', re.IGNORECASE)
_ON: Final = {"": True, "true": True, "false": False}


def parse_preferences(prefer: str) -> ResponsePreferences | None:
    """Return the preferences for responses in a header Prefer (RFC 7240); None where it has none.

    Each is on, or off with the value `false`. As the RFC says, others and other values are ignored, and the
    first of several of one name counts.
    """
    found: dict[str, bool] = {}
    for item in prefer.split(","):
        matched = _PREFERENCE.fullmatch(item)
        if matched is not None and (value := _ON.get((matched[2] or "").lower())) is not None:
            found.setdefault(matched[1].lower(), value)
    preferences = ResponsePreferences(found.get(DECODE), found.get(VALIDATE))
    return None if preferences == ResponsePreferences() else preferences
