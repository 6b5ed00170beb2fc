"""The credentials that a registrar may send. Secrets go in here and never come out."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, SecretStr, field_validator, model_validator

from app.credentials.fields import NO_NUL, PRINTABLE, Origin, SecretText, clean_secret, stored_secret
from app.credentials.model import GivenCredential
from app.schemas import Closed, ShortText, UrlText
from app.utcp.headers import COOKIE_NAME, HEADER_NAME, never_set_by_credentials

_USERINFO = ("username", "password")


class _CredentialInput(Closed):
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

    def given(self) -> GivenCredential:
        """The credential with its secrets apart."""
        public = {"location": self.location, "name": self.name}
        return GivenCredential(
            "api_key", public, {"value": self.value.get_secret_value()}, _tuple(self.allowed_origins)
        )


class BasicInput(_CredentialInput):
    """User name and password, RFC 7617."""

    kind: Literal["basic"]
    username: Annotated[SecretText, Field(json_schema_extra={"pattern": r"^[^\x00-\x1f\x7f:]+$"})]
    password: Annotated[
        SecretStr, Field(max_length=16_384, json_schema_extra=dict(PRINTABLE)), AfterValidator(clean_secret)
    ]

    @field_validator("username")
    @classmethod
    def _no_colon(cls, value: SecretStr) -> SecretStr:
        if ":" in value.get_secret_value():
            msg = "must not contain a colon (RFC 7617, section 2)"
            raise ValueError(msg)
        return value

    def given(self) -> GivenCredential:
        """The credential with its secrets apart."""
        secrets = {
            "username": self.username.get_secret_value(),
            "password": self.password.get_secret_value(),
        }
        return GivenCredential("basic", {}, secrets, _tuple(self.allowed_origins))


class BearerInput(_CredentialInput):
    """A token sent as `Authorization: Bearer ...`, RFC 6750."""

    kind: Literal["bearer"]
    token: SecretText

    def given(self) -> GivenCredential:
        """The credential with its secrets apart."""
        return GivenCredential(
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

    def given(self) -> GivenCredential:
        """The credential with its secrets apart."""
        names = ("token_url", "scope", "audience", "resource", "token_endpoint_auth_method")
        secrets = {
            "client_id": self.client_id.get_secret_value(),
            "client_secret": self.client_secret.get_secret_value(),
        }
        return GivenCredential(
            "oauth2", {name: getattr(self, name) for name in names}, secrets, _tuple(self.allowed_origins)
        )


class StaticValue(Closed):
    """One value of a call template: of a header, of the URL's query, of its userinfo, or of a field."""

    location: Literal["header", "query", "userinfo", "field"]
    name: Annotated[str, Field(min_length=1, max_length=256, json_schema_extra=dict(PRINTABLE))] = Field(
        description="Of the header or parameter; in the userinfo, username or password; of a field, its JSON "
        "pointer.",
        examples=["X-Key"],
    )
    value: Annotated[
        SecretStr, Field(max_length=65_536, json_schema_extra=dict(NO_NUL)), AfterValidator(stored_secret)
    ] = Field(description="Without control characters, but in a field.")

    @model_validator(mode="after")
    def _can_be_sent(self) -> "StaticValue":
        if self.location != "field":
            clean_secret(self.value)
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

    def given(self) -> GivenCredential:
        """The credential with its secrets apart."""
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
        return GivenCredential("static", {}, secrets, _tuple(self.allowed_origins))

    def _of(self, location: str) -> dict[str, str]:
        return {one.name: one.value.get_secret_value() for one in self.values if one.location == location}


CredentialInput = Annotated[
    ApiKeyInput | BasicInput | BearerInput | OAuth2Input | StaticInput, Field(discriminator="kind")
]


def header_problem(location: str, name: str) -> str | None:
    """Why an API key cannot be sent under this name, or None."""
    if location == "header" and (not HEADER_NAME.fullmatch(name) or never_set_by_credentials(name)):
        return "This header cannot carry a key."
    if location == "cookie" and not COOKIE_NAME.fullmatch(name):
        return "This is not a legal cookie name (RFC 6265, section 4.1.1)."
    return None if name.isprintable() else "The name holds control characters."


def _tuple(origins: list[str] | None) -> tuple[str, ...] | None:
    return None if origins is None else tuple(dict.fromkeys(origins))
