"""The recipe of an HMAC request signature: which parts of a request are signed, and which headers carry it.

A recipe is data: templates with placeholders in braces, such as `{method}\\n{path}\\n{body_hash}`. An unknown
placeholder is rejected when the recipe is stored, so that no request is sent with a signature over the wrong
text.
"""

import base64
import binascii
import re
from collections.abc import Collection, Mapping
from typing import Annotated, Final, Literal

from pydantic import BaseModel, Field, field_validator

from app.formats.utcp.headers import HEADER_NAME, forbidden_in_credentials
from app.security.secret import Secret

SIGNED_PLACEHOLDERS: Final = frozenset(
    {
        "method", "url", "host", "path", "query", "target", "body", "body_hash", "timestamp", "nonce",
        "key_id",
    }
)  # fmt: skip
"""What `string_to_sign` may name. `target` is the path with the query."""
HEADER_PLACEHOLDERS: Final = frozenset({"signature", "timestamp", "nonce", "key_id", "body_hash"})
"""What the value of a header may name."""
_PLACEHOLDER: Final = re.compile(r"\{([A-Za-z_]+)\}")
_HEADER_TEXT: Final = re.compile(r"[\x20-\x7e]*")

HeaderTemplate = Annotated[str, Field(min_length=1, max_length=1000)]


class SignatureRecipe(BaseModel):
    """How a request is signed with HMAC (RFC 2104); none of its members is secret.

    The path and the query are those that are sent, percent-encoded.
    """

    header: str = Field(
        default="X-Signature", min_length=1, max_length=256, description="The header of the signature."
    )
    header_value: HeaderTemplate = Field(
        default="{signature}",
        description="Its value, with `{signature}`, `{timestamp}`, `{nonce}`, `{key_id}`, `{body_hash}`.",
        examples=["HMAC {key_id}:{signature}"],
    )
    headers: dict[str, HeaderTemplate] = Field(
        default_factory=dict,
        max_length=16,
        description="Further headers and their values, with the same placeholders.",
        examples=[{"X-Timestamp": "{timestamp}"}],
    )
    string_to_sign: str = Field(
        default="{method}\n{target}\n{timestamp}\n{body_hash}",
        min_length=1,
        max_length=4000,
        description="The text that is signed: `{method}`, `{url}`, `{host}`, `{path}`, `{query}`, `{target}` "
        "(path and query), `{body}`, `{body_hash}`, `{timestamp}`, `{nonce}`, `{key_id}`.",
    )
    algorithm: Literal["sha256", "sha512"] = Field(
        default="sha256", description="Of the signature and of `{body_hash}`."
    )
    encoding: Literal["hex", "base64"] = Field(default="hex", description="Of the signature.")
    body_hash_encoding: Literal["hex", "base64"] = Field(default="hex", description="Of `{body_hash}`.")
    secret_encoding: Literal["text", "hex", "base64"] = Field(
        default="text", description="How the secret is written: its text (UTF-8), or bytes in hex or base64."
    )
    timestamp_format: Literal["unix", "unix_ms", "iso8601", "http_date"] = Field(
        default="unix",
        description="Of `{timestamp}`: seconds or milliseconds since 1970, `2026-11-23T08:00:00Z`, "
        "or the form of the header Date.",
    )

    @field_validator("string_to_sign")
    @classmethod
    def _can_be_signed(cls, value: str) -> str:
        _check_placeholders(value, SIGNED_PLACEHOLDERS)
        return value

    @field_validator("header")
    @classmethod
    def _is_header(cls, value: str) -> str:
        _check_header(value)
        return value

    @field_validator("header_value")
    @classmethod
    def _carries_the_signature(cls, value: str) -> str:
        _check_header_text(value)
        if "{signature}" not in value:
            raise ValueError("must contain {signature}")
        return value

    @field_validator("headers")
    @classmethod
    def _are_headers(cls, value: Mapping[str, str]) -> Mapping[str, str]:
        for name, text in value.items():
            _check_header(name)
            _check_header_text(text)
        return value

    def public(self) -> dict[str, object]:
        """Return the recipe as JSON, all members present."""
        return {name: getattr(self, name) for name in SignatureRecipe.model_fields}


def fill(template: str, values: Mapping[str, str]) -> str:
    """Return the template with each placeholder replaced, once: a value is never searched for more."""
    return _PLACEHOLDER.sub(lambda match: values[match[1]], template)


def list_placeholders(template: str) -> frozenset[str]:
    """Return the names of the placeholders of a template."""
    return frozenset(_PLACEHOLDER.findall(template))


def decode_key(secret: Secret, encoding: str) -> bytes:
    """Return the bytes of a secret that is written as text, hex or base64 (either alphabet).

    Raise ValueError, without the secret, where it is not of that encoding.
    """
    text = secret.reveal()
    try:
        match encoding:
            case "hex":
                return bytes.fromhex(text)
            case "base64":
                padded = text.replace("-", "+").replace("_", "/").rstrip("=")
                return base64.b64decode(padded + "=" * (-len(padded) % 4), validate=True)
    except (ValueError, binascii.Error):
        raise ValueError(f"The secret is not written in {encoding}.") from None
    return text.encode()


def _check_placeholders(text: str, known: Collection[str]) -> None:
    unknown = sorted(list_placeholders(text) - frozenset(known))
    if unknown:
        raise ValueError(
            f"has the unknown placeholder {{{unknown[0]}}}; known are {', '.join(sorted(known))}"
        )


def _check_header(name: str) -> None:
    if not HEADER_NAME.fullmatch(name) or forbidden_in_credentials(name):
        raise ValueError("names a header that cannot carry a signature")


def _check_header_text(text: str) -> None:
    if not _HEADER_TEXT.fullmatch(text):
        raise ValueError("must be printable ASCII")
    _check_placeholders(text, HEADER_PLACEHOLDERS)
