"""The credentials that a client may send, and the field types of names, origins and secrets.

Secrets go in here and never come out.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, SecretStr, field_validator, model_validator

from app.credentials.origins import checked_origin
from app.schemas import ShortText, StrictModel, Tag, UrlText
from app.security.credentials import CredentialDraft
from app.utcp.headers import COOKIE_NAME, HEADER_NAME, forbidden_in_credentials

MASKS: Final = frozenset({"***", "****", "*****", "********", "<redacted>", "[redacted]", "••••••••"})

SLOT: Final = r"^[A-Za-z0-9._-]{1,100}$"
VARIABLE_NAME: Final = r"^[A-Za-z0-9_]{1,200}$"

SlotName = Annotated[str, Field(pattern=SLOT, examples=["api_key"])]
VariableName = Annotated[str, Field(pattern=VARIABLE_NAME, examples=["API_TOKEN"])]


def secret_line(secret: SecretStr) -> SecretStr:
    value = secret.get_secret_value()
    if value.strip() in MASKS or (len(value) >= 3 and not value.strip("*")):
        msg = "is a mask, not a value: a masked value that was read cannot be stored back"
        raise ValueError(msg)
    if any(ord(char) < 0x20 or ord(char) == 0x7F or "\ud800" <= char <= "\udfff" for char in value):
        msg = "must not contain control characters"
        raise ValueError(msg)
    return secret


def secret_text(secret: SecretStr) -> SecretStr:
    value = secret.get_secret_value()
    if "\x00" in value or any("\ud800" <= char <= "\udfff" for char in value):
        msg = "must not contain NUL or lone surrogates"
        raise ValueError(msg)
    if value.strip() in MASKS:
        msg = "is a mask, not a value: a masked value that was read cannot be stored back"
        raise ValueError(msg)
    return secret


def stored_text(value: str) -> str:
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
NO_OTHER_KEYS: Final = {"additionalProperties": False}
_PORT: Final = r"(?:6553[0-5]|655[0-2]\d|65[0-4]\d\d|6[0-4]\d{3}|[1-5]\d{4}|[1-9]\d{0,3})"
# The spelling that is stored; others of the same origin (upper case, a trailing slash, IDN) are taken, too.
_ORIGIN: Final = {
    "pattern": rf"^(?:https?|wss?|tcp|udp|grpcs?)://[a-z](?:[a-z0-9-]{{0,61}}[a-z0-9])?(?:\.[a-z]{{2,20}})*(?::{_PORT})?$"
}

SecretText = Annotated[
    SecretStr,
    Field(min_length=1, max_length=16_384, json_schema_extra=dict(PRINTABLE)),
    AfterValidator(secret_line),
]
Origin = Annotated[
    str,
    Field(max_length=300, examples=["https://api.example.com"], json_schema_extra=dict(_ORIGIN)),
    AfterValidator(_origin),
]
OverlayText = Annotated[
    str,
    Field(min_length=1, max_length=1 << 20, json_schema_extra=dict(NO_NUL)),
    AfterValidator(stored_text),
]
Tags = Annotated[list[Tag], Field(max_length=64)]

_USERINFO: Final = ("username", "password")


class _CredentialInput(StrictModel):
    allowed_origins: Annotated[list[Origin], Field(min_length=1, max_length=50)] | None = Field(
        default=None,
        description="Where the credential may be sent. Default: where the stored one goes; of the first one "
        "the origin named at registration.",
    )


class ApiKeyInput(_CredentialInput):
    """A fixed value in a header, in the query or in a cookie."""

    kind: Literal["api_key"]
    value: SecretText
    location: Literal["header", "query", "cookie"] | None = Field(
        default=None, description="Default: as the security scheme of the slot says, else header."
    )
    name: Annotated[ShortText, Field(min_length=1)] | None = Field(
        default=None, description="Default: as the security scheme of the slot says, else X-Api-Key."
    )

    def to_draft(self) -> CredentialDraft:
        """Return the credential with its secrets apart from what may be shown."""
        public = {"location": self.location, "name": self.name}
        return CredentialDraft(
            "api_key", public, {"value": self.value.get_secret_value()}, _tuple(self.allowed_origins)
        )


class BasicInput(_CredentialInput):
    """User name and password, RFC 7617."""

    kind: Literal["basic"]
    username: Annotated[SecretText, Field(json_schema_extra={"pattern": r"^[^\x00-\x1f\x7f:]+$"})]
    password: Annotated[
        SecretStr,
        Field(max_length=16_384, json_schema_extra=dict(PRINTABLE)),
        AfterValidator(secret_line),
    ]

    @field_validator("username")
    @classmethod
    def _no_colon(cls, value: SecretStr) -> SecretStr:
        if ":" in value.get_secret_value():
            msg = "must not contain a colon (RFC 7617, section 2)"
            raise ValueError(msg)
        return value

    def to_draft(self) -> CredentialDraft:
        """Return the credential with its secrets apart from what may be shown."""
        secrets = {
            "username": self.username.get_secret_value(),
            "password": self.password.get_secret_value(),
        }
        return CredentialDraft("basic", {}, secrets, _tuple(self.allowed_origins))


class BearerInput(_CredentialInput):
    """A token sent as `Authorization: Bearer ...`, RFC 6750."""

    kind: Literal["bearer"]
    token: SecretText

    def to_draft(self) -> CredentialDraft:
        """Return the credential with its secrets apart from what may be shown."""
        return CredentialDraft(
            "bearer", {}, {"token": self.token.get_secret_value()}, _tuple(self.allowed_origins)
        )


class OAuth2Input(_CredentialInput):
    """Client credentials, RFC 6749 section 4.4."""

    kind: Literal["oauth2"]
    client_id: SecretText
    client_secret: SecretText
    token_url: UrlText | None = Field(
        default=None,
        description="Default: that of the stored credential; of the first one the security scheme's, if it "
        "lies at the origin named at registration.",
        examples=["https://auth.example.com/token"],
    )
    scope: ShortText | None = None
    audience: ShortText | None = None
    resource: ShortText | None = None
    token_endpoint_auth_method: Literal["auto", "client_secret_basic", "client_secret_post"] = "auto"

    def to_draft(self) -> CredentialDraft:
        """Return the credential with its secrets apart from what may be shown."""
        names = ("token_url", "scope", "audience", "resource", "token_endpoint_auth_method")
        secrets = {
            "client_id": self.client_id.get_secret_value(),
            "client_secret": self.client_secret.get_secret_value(),
        }
        return CredentialDraft(
            "oauth2", {name: getattr(self, name) for name in names}, secrets, _tuple(self.allowed_origins)
        )


class StaticValue(StrictModel):
    """One value of a call template: of a header, of the URL's query, of its userinfo, or of a field."""

    location: Literal["header", "query", "userinfo", "field"]
    name: Annotated[str, Field(min_length=1, max_length=256, json_schema_extra=dict(PRINTABLE))] = Field(
        description="Of the header or parameter; in the userinfo, username or password; of a field, its JSON "
        "pointer.",
        examples=["X-Key"],
    )
    value: Annotated[
        SecretStr,
        Field(max_length=65_536, json_schema_extra=dict(NO_NUL)),
        AfterValidator(secret_text),
    ] = Field(description="Without control characters, but in a field.")

    @model_validator(mode="after")
    def _can_be_sent(self) -> "StaticValue":
        if self.location != "field":
            secret_line(self.value)
        problem = header_problem(self.location, self.name)
        if self.location == "userinfo" and self.name not in _USERINFO:
            problem = "must be called username or password"
        if self.location == "field" and not self.name.startswith("/"):
            problem = "must be a JSON pointer into the call template"
        if problem:
            raise ValueError(problem)
        return self


class StaticInput(_CredentialInput):
    """What a call template itself held: a slot of kind `static` names the values that belong to it."""

    kind: Literal["static"]
    values: Annotated[list[StaticValue], Field(min_length=1, max_length=100)]

    @field_validator("values")
    @classmethod
    def _each_once(cls, values: list[StaticValue]) -> list[StaticValue]:
        named = [
            (one.location, one.name if one.location == "field" else one.name.lower())
            for one in values
            if one.location != "query"
        ]
        if len(set(named)) < len(named):
            msg = "only a parameter of the query may stand there twice"
            raise ValueError(msg)
        return values

    def to_draft(self) -> CredentialDraft:
        """Return the credential with its secrets apart from what may be shown."""
        query: dict[str, list[str]] = {}
        for one in self.values:
            if one.location == "query":
                query.setdefault(one.name, []).append(one.value.get_secret_value())
        headers = self._of("header")
        userinfo = self._of("userinfo")
        basic = [userinfo.get(name, "") for name in _USERINFO] if userinfo else None
        secrets: dict[str, Any] = {"headers": headers, "query": query, "basic": basic}
        if fields := self._of("field"):
            secrets["fields"] = fields
        return CredentialDraft("static", {}, secrets, _tuple(self.allowed_origins))

    def _of(self, location: str) -> dict[str, str]:
        return {one.name: one.value.get_secret_value() for one in self.values if one.location == location}


CredentialInput = Annotated[
    ApiKeyInput | BasicInput | BearerInput | OAuth2Input | StaticInput, Field(discriminator="kind")
]


def header_problem(location: str, name: str) -> str | None:
    """Why an API key cannot be sent under this name, or None."""
    if location == "header" and (not HEADER_NAME.fullmatch(name) or forbidden_in_credentials(name)):
        return "This header cannot carry a key."
    if location == "cookie" and not COOKIE_NAME.fullmatch(name):
        return "This is not a legal cookie name (RFC 6265, section 4.1.1)."
    return None if name.isprintable() else "The name holds control characters."


def _tuple(origins: list[str] | None) -> tuple[str, ...] | None:
    return None if origins is None else tuple(dict.fromkeys(origins))
