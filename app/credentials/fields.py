"""The texts that a registrar may send: names, origins and secrets, as pydantic fields."""

from typing import Annotated, Final

from pydantic import AfterValidator, Field, SecretStr

from app.credentials.origins import checked_origin
from app.schemas import Tag

MASKS: Final = frozenset({"***", "****", "*****", "********", "<redacted>", "[redacted]", "••••••••"})

SLOT: Final = r"^[A-Za-z0-9._-]{1,100}$"
VARIABLE_NAME: Final = r"^[A-Za-z0-9_]{1,200}$"

SlotName = Annotated[str, Field(pattern=SLOT, examples=["api_key"])]
VariableName = Annotated[str, Field(pattern=VARIABLE_NAME, examples=["API_TOKEN"])]


def clean_secret(secret: SecretStr) -> SecretStr:
    value = secret.get_secret_value()
    if value.strip() in MASKS or (len(value) >= 3 and not value.strip("*")):
        msg = "is a mask, not a value: a masked value that was read cannot be stored back"
        raise ValueError(msg)
    if any(ord(char) < 0x20 or ord(char) == 0x7F or "\ud800" <= char <= "\udfff" for char in value):
        msg = "must not contain control characters"
        raise ValueError(msg)
    return secret


def stored_secret(secret: SecretStr) -> SecretStr:
    value = secret.get_secret_value()
    if "\x00" in value or any("\ud800" <= char <= "\udfff" for char in value):
        msg = "must not contain NUL or lone surrogates"
        raise ValueError(msg)
    if value.strip() in MASKS:
        msg = "is a mask, not a value: a masked value that was read cannot be stored back"
        raise ValueError(msg)
    return secret


def storable_text(value: str) -> str:
    if "\x00" in value or any("\ud800" <= char <= "\udfff" for char in value):
        msg = "must not contain NUL or lone surrogates"
        raise ValueError(msg)
    return value


def _origin(value: str) -> str:
    origin = checked_origin(value)
    if origin is None:
        msg = "must be an origin such as https://api.example.com"
        raise ValueError(msg)
    return origin


PRINTABLE: Final = {"pattern": r"^[^\x00-\x1f\x7f]*$"}
NO_NUL: Final = {"pattern": r"^[^\x00]*$"}
# Beside the pattern of the names, which pydantic writes.
NO_OTHERS: Final = {"additionalProperties": False}
_PORT: Final = r"(?:6553[0-5]|655[0-2]\d|65[0-4]\d\d|6[0-4]\d{3}|[1-5]\d{4}|[1-9]\d{0,3})"
# The spelling that is stored; others of the same origin (upper case, a trailing slash, IDN) are taken, too.
_ORIGIN: Final = {
    "pattern": rf"^(?:https?|wss?|tcp|udp|grpcs?)://[a-z](?:[a-z0-9-]{{0,61}}[a-z0-9])?(?:\.[a-z]{{2,20}})*(?::{_PORT})?$"
}

SecretText = Annotated[
    SecretStr,
    Field(min_length=1, max_length=16_384, json_schema_extra=dict(PRINTABLE)),
    AfterValidator(clean_secret),
]
Origin = Annotated[
    str,
    Field(max_length=300, examples=["https://api.example.com"], json_schema_extra=dict(_ORIGIN)),
    AfterValidator(_origin),
]
OverlayText = Annotated[
    str,
    Field(min_length=1, max_length=1 << 20, json_schema_extra=dict(NO_NUL)),
    AfterValidator(storable_text),
]
Tags = Annotated[list[Tag], Field(max_length=64)]
