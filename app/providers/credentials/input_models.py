"""The input models of credentials, and the field types of names, origins and secrets.

Secrets are write-only: no response contains them.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, SecretStr, field_validator, model_validator
from typing_extensions import TypeAliasType

from app.core.schemas import ShortText, StrictModel, Tag, UrlText
from app.core.text import pointer
from app.formats.utcp.auth import AUTH_SCHEME, build_bearer_draft, build_hmac_draft
from app.formats.utcp.headers import COOKIE_NAME, HEADER_NAME, forbidden_in_credentials
from app.formats.utcp.oauth2_grant import OAuth2Grant, build_google_draft, build_oauth2_draft
from app.formats.utcp.signature_recipe import SignatureRecipe, decode_key
from app.formats.utcp.variables import BRACED
from app.providers.credentials.origins import normalize_origin
from app.security.sealed_credentials import CredentialDraft
from app.security.secret import Secret

MASKS: Final = frozenset({"***", "****", "*****", "********", "<redacted>", "[redacted]", "••••••••"})

SLOT: Final = r"^[A-Za-z0-9._-]{1,100}$"
VARIABLE_NAME: Final = r"^[A-Za-z0-9_]{1,200}$"

SlotName = Annotated[str, Field(pattern=SLOT, examples=["api_key"])]
VariableName = Annotated[str, Field(pattern=VARIABLE_NAME, examples=["API_TOKEN"])]


def secret_line(secret: SecretStr) -> SecretStr:
    """Return a secret of one line; raise ValueError for a mask, control characters and lone surrogates."""
    value = secret.get_secret_value()
    if value.strip() in MASKS or (len(value) >= 3 and not value.strip("*")):
        msg = "is a mask, not a value: send the secret itself, not the masked value that a response shows"
        raise ValueError(msg)
    if any(ord(char) < 0x20 or ord(char) == 0x7F or "\ud800" <= char <= "\udfff" for char in value):
        msg = "must not contain control characters"
        raise ValueError(msg)
    return secret


def secret_text(secret: SecretStr) -> SecretStr:
    """Return a secret of any number of lines; raise ValueError for a mask, NUL and lone surrogates."""
    value = secret.get_secret_value()
    if "\x00" in value or any("\ud800" <= char <= "\udfff" for char in value):
        msg = "must not contain NUL or lone surrogates"
        raise ValueError(msg)
    if value.strip() in MASKS:
        msg = "is a mask, not a value: send the secret itself, not the masked value that a response shows"
        raise ValueError(msg)
    return secret


def stored_text(value: str) -> str:
    """Return a text that PostgreSQL can store; raise ValueError for NUL and lone surrogates."""
    if "\x00" in value or any("\ud800" <= char <= "\udfff" for char in value):
        msg = "must not contain NUL or lone surrogates"
        raise ValueError(msg)
    return value


def _origin(value: str) -> str:
    origin = normalize_origin(value)
    if origin is None:
        msg = "must be an origin such as https://api.example.com"
        raise ValueError(msg)
    return origin


def _check_origin(value: str) -> str:
    origin = _origin(value)
    if not origin.startswith(("https://", "http://")):
        msg = "must be an origin of HTTP such as https://api.example.com"
        raise ValueError(msg)
    return origin


PRINTABLE: Final = {"pattern": r"^[^\x00-\x1f\x7f]*$"}
NO_NUL: Final = {"pattern": r"^[^\x00]*$"}
# Beside the pattern of the names, which pydantic writes.
NO_OTHER_KEYS: Final = {"additionalProperties": False}
_PORT: Final = r"(?:6553[0-5]|655[0-2]\d|65[0-4]\d\d|6[0-4]\d{3}|[1-5]\d{4}|[1-9]\d{0,3})"
# The normalised form; other spellings of the same origin (upper case, a trailing slash, IDN) are accepted,
# too.
_AUTHORITY: Final = rf"://[a-z](?:[a-z0-9-]{{0,61}}[a-z0-9])?(?:\.[a-z]{{2,20}})*(?::{_PORT})?$"
_ORIGIN: Final = {"pattern": rf"^(?:https?|wss?|tcp|udp|grpcs?){_AUTHORITY}"}
_HTTP_ORIGIN: Final = {"pattern": rf"^https?{_AUTHORITY}"}

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
HttpOrigin = Annotated[
    str,
    Field(max_length=300, json_schema_extra=dict(_HTTP_ORIGIN)),
    AfterValidator(_check_origin),
]
OverlayText = Annotated[
    str,
    Field(min_length=1, max_length=1 << 20, json_schema_extra=dict(NO_NUL)),
    AfterValidator(stored_text),
]
Tags = Annotated[list[Tag], Field(max_length=64)]

_USERINFO: Final = ("username", "password")
_AWS_NAME: Final = r"^[A-Za-z0-9-]{1,63}$"


class _CredentialInput(StrictModel):
    allowed_origins: Annotated[list[Origin], Field(min_length=1, max_length=50)] | None = Field(
        default=None,
        description="Origins to which the credential may be sent. Default: those of the stored credential; "
        "for the first credential, the origin given at registration.",
    )


class ApiKeyInput(_CredentialInput):
    """A fixed value in a header, in the query or in a cookie."""

    kind: Literal["api_key"]
    value: SecretText
    location: Literal["header", "query", "cookie"] | None = Field(
        default=None, description="Default: that of the slot's security scheme, else header."
    )
    name: Annotated[ShortText, Field(min_length=1)] | None = Field(
        default=None, description="Default: that of the slot's security scheme, else X-Api-Key."
    )

    def to_draft(self, *, at: str = "") -> CredentialDraft:  # noqa: ARG002 - for kinds with rules.
        """Return the credential with its secrets separated from its public members."""
        public = {"location": self.location, "name": self.name}
        return CredentialDraft(
            "api_key", public, {"value": self.value.get_secret_value()}, _tuple(self.allowed_origins)
        )


class _PasswordInput(_CredentialInput):
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

    def _secrets(self) -> dict[str, str]:
        return {
            "username": self.username.get_secret_value(),
            "password": self.password.get_secret_value(),
        }


class BasicInput(_PasswordInput):
    """User name and password, RFC 7617."""

    kind: Literal["basic"]

    def to_draft(self, *, at: str = "") -> CredentialDraft:  # noqa: ARG002 - for kinds with rules.
        """Return the credential with its secrets separated from its public members."""
        return CredentialDraft("basic", {}, self._secrets(), _tuple(self.allowed_origins))


class DigestInput(_PasswordInput):
    """User name and password of HTTP Digest, RFC 7616: sent as a digest with the server's nonce."""

    kind: Literal["digest"]

    def to_draft(self, *, at: str = "") -> CredentialDraft:  # noqa: ARG002 - for kinds with rules.
        """Return the credential with its secrets separated from its public members."""
        return CredentialDraft("digest", {}, self._secrets(), _tuple(self.allowed_origins))


class AwsSigV4Input(_CredentialInput):
    """An AWS access key, which signs each request (Signature Version 4) for one region and service."""

    kind: Literal["aws_sigv4"]
    access_key_id: SecretText
    secret_access_key: SecretText
    session_token: SecretText | None = Field(
        default=None, description="Of temporary credentials; these expire, and are then stored again."
    )
    region: Annotated[str, Field(pattern=_AWS_NAME, examples=["eu-central-1"])]
    service: Annotated[
        str,
        Field(
            pattern=_AWS_NAME, examples=["execute-api"], description="Its signing name: s3, execute-api, ..."
        ),
    ]

    def to_draft(self, *, at: str = "") -> CredentialDraft:  # noqa: ARG002 - for kinds with rules.
        """Return the credential with its secrets separated from its public members."""
        public = {"region": self.region, "service": self.service}
        secrets = _revealed(self, ("access_key_id", "secret_access_key", "session_token"))
        return CredentialDraft("aws_sigv4", public, secrets, _tuple(self.allowed_origins))


class HmacInput(_CredentialInput, SignatureRecipe):
    """A key that signs each request with HMAC, and the recipe by which it does."""

    kind: Literal["hmac"]
    secret: SecretText
    key_id: SecretText | None = Field(default=None, description="What `{key_id}` of the recipe stands for.")

    @model_validator(mode="after")
    def _is_encoded(self) -> "HmacInput":
        secret = self.secret.get_secret_value()
        if BRACED.search(secret) is None:
            decode_key(Secret(secret), self.secret_encoding)
        return self

    def to_draft(self, *, at: str = "") -> CredentialDraft:
        """Return the credential with its secrets separated from its public members.

        Raise InvalidInput, with a pointer below `at`, for a recipe that names an absent key id.
        """
        secrets = _revealed(self, ("secret", "key_id"))
        draft = build_hmac_draft(self, secret=secrets["secret"], key_id=secrets.get("key_id"), location=at)
        return replace(draft, allowed_origins=_tuple(self.allowed_origins))


class GoogleServiceAccountInput(_CredentialInput):
    """The key of a Google service account: tokens are requested at its `token_uri` (RFC 7523)."""

    kind: Literal["google_service_account"]
    key: Annotated[
        SecretStr,
        Field(min_length=1, max_length=16_384, json_schema_extra=dict(NO_NUL)),
        AfterValidator(secret_text),
    ] = Field(description="The text of its JSON key file.")
    scope: Annotated[str, Field(max_length=2000, pattern=NO_NUL["pattern"])] | None = Field(
        default=None,
        description="Scopes, with blanks between them. Default: those that the operation requires.",
        examples=["https://www.googleapis.com/auth/cloud-platform"],
    )
    subject: ShortText | None = Field(
        default=None, description="The user on whose behalf it acts (domain-wide delegation)."
    )

    def to_draft(self, *, at: str = "") -> CredentialDraft:
        """Return the credential with its secrets separated from its public members.

        Raise InvalidInput, with a pointer below `at`, for what is no key file.
        """
        key = self.key.get_secret_value()
        draft = build_google_draft(key, scope=self.scope, subject=self.subject, at=pointer(at, "key"))
        return replace(draft, allowed_origins=_tuple(self.allowed_origins))


class BearerInput(_CredentialInput):
    """A token sent as `Authorization: Bearer ...`, RFC 6750, or the credentials of another scheme."""

    kind: Literal["bearer"]
    token: SecretText
    scheme: Annotated[str, Field(pattern=AUTH_SCHEME, examples=["Token"])] | None = Field(
        default=None,
        description="The authentication scheme before the token (RFC 9110, section 11.1). Default: that of "
        "the slot's security scheme, else Bearer.",
    )

    def to_draft(self, *, at: str = "") -> CredentialDraft:
        """Return the credential with its secrets separated from its public members.

        Raise InvalidInput, with a pointer below `at`, for a token that cannot be sent.
        """
        draft = build_bearer_draft(self.token.get_secret_value(), scheme=self.scheme, location=at)
        return replace(draft, allowed_origins=_tuple(self.allowed_origins))


class OAuth2Input(_CredentialInput, OAuth2Grant):
    """A client of OAuth 2.0, and the grant by which it gets tokens: client credentials (RFC 6749, section
    4.4), a refresh token (section 6), or an assertion (RFC 7523, section 2.1).
    """

    kind: Literal["oauth2"]
    client_id: SecretText | None = Field(
        default=None, description="Required, except for jwt_bearer with `issuer`."
    )
    client_secret: SecretText | None = Field(
        default=None, description="Required by client_credentials, unless there is a `private_key`."
    )
    refresh_token: SecretText | None = Field(
        default=None,
        description="Of the grant refresh_token. Where the token endpoint issues a new one with each token, "
        "that is stored in its place, sealed.",
    )
    private_key: (
        Annotated[
            SecretStr,
            Field(min_length=1, max_length=16_384, json_schema_extra=dict(NO_NUL)),
            AfterValidator(secret_text),
        ]
        | None
    ) = Field(
        default=None,
        description="PEM, not encrypted: RSA of 2048 to 4096 bits, P-256, P-384, P-521 or Ed25519. It signs "
        "the assertion of jwt_bearer, or of the client itself (private_key_jwt).",
    )
    token_url: UrlText | None = Field(
        default=None,
        description="Default: that of the stored credential; for the first credential, that of the security "
        "scheme, if it is at the origin given at registration.",
        examples=["https://auth.example.com/token"],
    )
    metadata_url: UrlText | None = Field(
        default=None,
        description="Where the token endpoint is found if there is no `token_url`: metadata by RFC 8414 or "
        "OpenID Connect Discovery, at the origin of the endpoint. Default: that of the security scheme, if "
        "it is at the origin given at registration.",
        examples=["https://auth.example.com/.well-known/openid-configuration"],
    )
    scope: ShortText | None = None
    audience: ShortText | None = None
    resource: ShortText | None = None

    def to_draft(self, *, at: str = "") -> CredentialDraft:
        """Return the credential with its secrets separated from its public members.

        Raise InvalidInput, with pointers below `at`, where a member is absent that the grant needs.
        """
        names = ("client_id", "client_secret", "refresh_token", "private_key")
        draft = build_oauth2_draft(self, secrets=_revealed(self, names), at=at)
        return replace(draft, allowed_origins=_tuple(self.allowed_origins))


class StaticValue(StrictModel):
    """One value of a call template: in a header, in the query or userinfo of its URL, or in a field."""

    location: Literal["header", "query", "userinfo", "field"]
    name: Annotated[str, Field(min_length=1, max_length=256, pattern=PRINTABLE["pattern"])] = Field(
        description="Name of the header or parameter; `username` or `password` in the userinfo; JSON pointer "
        "of a field.",
        examples=["X-Key"],
    )
    value: Annotated[
        SecretStr,
        Field(max_length=65_536, json_schema_extra=dict(NO_NUL)),
        AfterValidator(secret_text),
    ] = Field(description="The value; control characters are allowed in fields only.")

    @model_validator(mode="after")
    def _can_be_sent(self) -> "StaticValue":
        if self.location != "field":
            secret_line(self.value)
        problem = header_problem(self.location, self.name)
        if self.location == "userinfo" and self.name not in _USERINFO:
            problem = "must have the name username or password"
        if self.location == "field" and not self.name.startswith("/"):
            problem = "must be a JSON pointer into the call template"
        if problem:
            raise ValueError(problem)
        return self


class StaticInput(_CredentialInput):
    """Secret values of a call template; the slot of kind `static` lists their locations and names."""

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
            msg = "only query parameters may be given more than once"
            raise ValueError(msg)
        return values

    def to_draft(self, *, at: str = "") -> CredentialDraft:  # noqa: ARG002 - for kinds with rules.
        """Return the credential with its secrets separated from its public members."""
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


CredentialInput = TypeAliasType(
    "CredentialInput",
    Annotated[
        ApiKeyInput
        | BasicInput
        | BearerInput
        | OAuth2Input
        | StaticInput
        | AwsSigV4Input
        | HmacInput
        | DigestInput
        | GoogleServiceAccountInput,
        Field(discriminator="kind"),
    ],
)
"""A credential, by its `kind`. With a name, so that it is one component of the OpenAPI document."""


def _revealed(model: StrictModel, names: Iterable[str]) -> dict[str, str]:
    """Return the secret members that are set, as text."""
    found = ((name, getattr(model, name)) for name in names)
    return {name: value.get_secret_value() for name, value in found if value is not None}


def header_problem(location: str, name: str) -> str | None:
    """Return why an API key cannot be sent under this name, or None if it can; `location` is header, query or
    cookie.
    """
    if location == "header" and (not HEADER_NAME.fullmatch(name) or forbidden_in_credentials(name)):
        return "This header cannot carry a key."
    if location == "cookie" and not COOKIE_NAME.fullmatch(name):
        return "This is not a valid cookie name (RFC 6265, section 4.1.1)."
    return None if name.isprintable() else "The name has control characters."


def _tuple(origins: list[str] | None) -> tuple[str, ...] | None:
    return None if origins is None else tuple(dict.fromkeys(origins))
