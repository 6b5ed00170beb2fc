"""UTCP's auth objects (`auth_type` api_key, basic, oauth2; the same in 0.x and 1.x), and their conversion
into credentials.

A bearer token is an `api_key` with the value `Bearer ${TOKEN}` in the header `Authorization`, and remains
one.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from app.errors import FieldError, InvalidInput
from app.security.credentials import CredentialDraft
from app.text import pointer
from app.utcp.headers import COOKIE_NAME, HEADER_NAME, forbidden_in_credentials

_SPELLINGS: Final = {"apikey": "api_key", "oauth": "oauth2", "oauth_2": "oauth2", "http_basic": "basic"}


class _Auth(BaseModel):
    # Unknown members are ignored, as by the reference client; in hand-written YAML an API key is often a
    # number.
    model_config = ConfigDict(
        extra="ignore", frozen=True, coerce_numbers_to_str=True, hide_input_in_errors=True
    )


class ApiKeyAuth(_Auth):
    """A fixed value sent in a header, a query parameter or a cookie."""

    auth_type: Literal["api_key"] = "api_key"
    api_key: str = Field(min_length=1, repr=False)
    var_name: str = Field(default="X-Api-Key", min_length=1, max_length=256)
    location: Literal["header", "query", "cookie"] = "header"

    @field_validator("location", mode="before")
    @classmethod
    def _any_case(cls, value: Any) -> Any:
        return value.lower() if isinstance(value, str) else value

    @field_validator("var_name", "location", mode="before")
    @classmethod
    def _null_is_default(cls, value: Any, info: Any) -> Any:
        return cls.model_fields[info.field_name].default if value is None else value


class BasicAuth(_Auth):
    """HTTP Basic authentication (RFC 7617)."""

    auth_type: Literal["basic"] = "basic"
    username: str
    password: str = Field(repr=False)

    @field_validator("username")
    @classmethod
    def _no_colon(cls, value: str) -> str:
        if ":" in value:
            raise ValueError(
                "A user name of basic authentication must not contain a colon (RFC 7617, section 2)"
            )
        return value


class OAuth2Auth(_Auth):
    """OAuth 2.0 client credentials (RFC 6749 section 4.4), with optional `audience` and `resource` (RFC
    8707).
    """

    auth_type: Literal["oauth2"] = "oauth2"
    token_url: str = Field(min_length=1, max_length=2048)
    client_id: str = Field(min_length=1)
    client_secret: str = Field(repr=False)
    scope: str | None = None
    audience: str | None = None
    resource: str | None = None

    @field_validator("scope", mode="before")
    @classmethod
    def _joined(cls, value: Any) -> Any:
        if isinstance(value, list) and all(isinstance(member, str) for member in value):
            value = " ".join(value)
        return value or None

    @field_validator("token_url")
    @classmethod
    def _is_http(cls, value: str) -> str:
        if "$" not in value and not value.lower().startswith(("https://", "http://")):
            raise ValueError("A token URL must begin with https:// (or http://)")
        return value


Auth = Annotated[ApiKeyAuth | BasicAuth | OAuth2Auth, Field(discriminator="auth_type")]
_MODELS: Final[Mapping[str, type[ApiKeyAuth] | type[BasicAuth] | type[OAuth2Auth]]] = {
    "api_key": ApiKeyAuth, "basic": BasicAuth, "oauth2": OAuth2Auth,
}  # fmt: skip


def read_auth(raw: Any, *, at: str = "") -> ApiKeyAuth | BasicAuth | OAuth2Auth:
    """Parse an auth object, accepting variant spellings of its type; raise InvalidInput with pointers
    below `at`.
    """
    if isinstance(raw, (ApiKeyAuth, BasicAuth, OAuth2Auth)):
        return raw
    if not isinstance(raw, Mapping):
        raise InvalidInput(
            "auth must be an object", errors=[FieldError(at, "Give an object with auth_type.")]
        )
    kind = _kind(raw)
    model = _MODELS.get(kind)
    if model is None:
        error = FieldError(
            pointer(at, "auth_type"), "This auth_type is not supported.", expected=sorted(_MODELS)
        )
        raise InvalidInput("The auth_type is not supported", errors=[error])
    try:
        return model.model_validate({**raw, "auth_type": kind})
    except ValidationError as error:
        raise InvalidInput("The auth object is not valid", errors=field_errors(error, at=at)) from None


def credential_from_auth(auth: Any, *, at: str = "") -> CredentialDraft:
    """Return the credential draft of a UTCP auth object (or model). Its values may contain `${VARIABLES}`.

    Raises InvalidInput for an invalid auth object, and for a name or value that cannot be sent.
    """
    match read_auth(auth, at=at):
        case ApiKeyAuth(api_key=value, var_name=name, location=location):
            _check_name(name, location, at=pointer(at, "var_name"))
            _check_value(value, at=pointer(at, "api_key"))
            return CredentialDraft("api_key", {"location": location, "name": name}, {"value": value})
        case BasicAuth(username=username, password=password):
            return CredentialDraft("basic", {}, {"username": username, "password": password})
        case OAuth2Auth() as oauth:
            public = {
                "token_url": oauth.token_url,
                "scope": oauth.scope,
                "audience": oauth.audience,
                "resource": oauth.resource,
                "token_endpoint_auth_method": "auto",
            }
            return CredentialDraft(
                "oauth2", public, {"client_id": oauth.client_id, "client_secret": oauth.client_secret}
            )


def field_errors(error: ValidationError, *, at: str = "") -> list[FieldError]:
    """Return pydantic's errors as field errors, without the rejected values, which may be secrets."""
    return [
        FieldError(pointer(at, *detail["loc"]), detail["msg"].removeprefix("Value error, "))
        for detail in error.errors(include_url=False, include_input=False, include_context=False)
    ]


def _kind(raw: Mapping[str, Any]) -> str:
    given = raw.get("auth_type") or raw.get("type")
    if isinstance(given, str):
        kind = given.strip().lower().replace("-", "_").replace(" ", "_")
        return _SPELLINGS.get(kind, kind)
    for key, kind in (("token_url", "oauth2"), ("username", "basic"), ("api_key", "api_key")):
        if key in raw:
            return kind
    return ""


def _check_name(name: str, location: str, *, at: str) -> None:
    if location == "header" and (not HEADER_NAME.fullmatch(name) or forbidden_in_credentials(name)):
        raise InvalidInput("This header cannot carry a key", errors=[FieldError(at, "Name another header.")])
    if location == "cookie" and not COOKIE_NAME.fullmatch(name):
        raise InvalidInput(
            "The cookie's name is not valid", errors=[FieldError(at, "See RFC 6265, section 4.1.1.")]
        )
    if not name.isprintable():
        raise InvalidInput("The name contains control characters", errors=[FieldError(at, "Remove them.")])


def _check_value(value: str, *, at: str) -> None:
    if any(ord(character) < 0x20 or ord(character) == 0x7F for character in value):
        raise InvalidInput(
            "The key contains control characters",
            errors=[FieldError(at, "Remove line breaks and other control characters.")],
        )
