"""The values of a call template that are sealed, put back at the call: environments, message templates."""

from collections.abc import Iterable
from typing import Any

from app.outbound.credentials import WireCredential
from app.security.masking import MASK
from app.utcp.call_template import replace_strings


def field_values(credentials: Iterable[WireCredential], *, masked: bool = False) -> dict[str, str]:
    """Sealed values by their JSON pointer into the template; with `masked`, `***` for each."""
    return {
        wire.name: MASK if masked else wire.value.reveal() for wire in credentials if wire.location == "field"
    }


def fill_sealed_fields(fields: Any, credentials: Iterable[WireCredential], *, masked: bool = False) -> Any:
    """A copy of a template, or of what has its shape, with the sealed values in it."""
    return replace_strings(fields, field_values(credentials, masked=masked))
