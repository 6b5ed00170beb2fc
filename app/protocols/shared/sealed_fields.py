"""Insertion of sealed values into a call template at the call: environments, message templates."""

from collections.abc import Iterable
from typing import Any

from app.formats.utcp.call_template import replace_strings
from app.outbound.credentials import WireCredential
from app.security.masking import MASK


def field_values(credentials: Iterable[WireCredential], *, masked: bool = False) -> dict[str, str]:
    """Return the sealed values by JSON pointer into the template; with `masked`, `***` for each."""
    return {
        wire.name: MASK if masked else wire.value.reveal() for wire in credentials if wire.location == "field"
    }


def fill_sealed_fields(fields: Any, credentials: Iterable[WireCredential], *, masked: bool = False) -> Any:
    """Return a copy of a template, or of a value of the same shape, with the sealed values inserted."""
    return replace_strings(fields, field_values(credentials, masked=masked))
