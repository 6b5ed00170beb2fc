"""UTCP's auth objects (`auth_type` api_key, basic, oauth2; the same in 0.x and 1.x), and their conversion
into credentials.

A bearer token is an `api_key` with the value `Bearer ${TOKEN}` in the header `Authorization`, and remains
one; `bearer` is the gateway's own type for it, which manuals have as `api_key`. The types aws_sigv4, hmac,
digest and google_service_account, and the grants of oauth2 other than client credentials, are the gateway's
own, too: released clients reject them, so no manual has them.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from app.core.errors import FieldError, InvalidInput
from app.core.text import pointer
from app.formats.utcp.headers import COOKIE_NAME, HEADER_NAME, forbidden_in_credentials
from app.formats.utcp.oauth2_grant import OAuth2Grant, build_google_draft, build_oauth2_draft
from app.formats.utcp.signature_recipe import SignatureRecipe
from app.security.sealed_credentials import CredentialDraft

AUTH_SCHEME: Final = r"^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,40}$"
"""A name of an authentication scheme, a token of RFC 9110."""
_SPELLINGS: Final = {
    "http_bearer": "bearer",
    "apikey": "api_key",
    "oauth": "oauth2",
    "oauth_2": "oauth2",
    "http_basic": "basic",
    "http_digest": "digest",
    "sigv4": "aws_sigv4",
}


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


class _PasswordAuth(_Auth):
    username: str
    password: str = Field(repr=False)

    @field_validator("username")
    @classmethod
    def _no_colon(cls, value: str) -> str:
        if ":" in value:
            raise ValueError(
                "A user name must not contain a colon (RFC 7617, section 2; RFC 7616, section 4.4)"
            )
        return value


class BasicAuth(_PasswordAuth):
    """HTTP Basic authentication (RFC 7617)."""

    auth_type: Literal["basic"] = "basic"


class DigestAuth(_PasswordAuth):
    """HTTP Digest authentication (RFC 7616)."""

    auth_type: Literal["digest"] = "digest"


class BearerAuth(_Auth):
    """A token in the header Authorization (RFC 6750), or the credentials of another scheme."""

    auth_type: Literal["bearer"] = "bearer"
    token: str = Field(min_length=1, repr=False)
    scheme: str | None = Field(default=None, pattern=AUTH_SCHEME)


class AwsSigV4Auth(_Auth):
    """AWS Signature Version 4."""

    auth_type: Literal["aws_sigv4"] = "aws_sigv4"
    access_key_id: str = Field(min_length=1, repr=False)
    secret_access_key: str = Field(min_length=1, repr=False)
    session_token: str | None = Field(default=None, repr=False)
    region: str = Field(min_length=1, max_length=100)
    service: str = Field(min_length=1, max_length=100)


class HmacAuth(_Auth, SignatureRecipe):
    """A signature of each request by a recipe."""

    auth_type: Literal["hmac"] = "hmac"
    secret: str = Field(min_length=1, repr=False)
    key_id: str | None = Field(default=None, repr=False)


class GoogleServiceAccountAuth(_Auth):
    """The key of a Google service account, with which tokens are requested at its `token_uri`."""

    auth_type: Literal["google_service_account"] = "google_service_account"
    key: dict[str, Any] | str = Field(repr=False)
    scope: str | None = None
    subject: str | None = None


class OAuth2Auth(_Auth, OAuth2Grant):
    """OAuth 2.0 client credentials (RFC 6749 section 4.4), with optional `audience` and `resource` (RFC
    8707), and the grants of `OAuth2Grant`.
    """

    auth_type: Literal["oauth2"] = "oauth2"
    token_url: str = Field(min_length=1, max_length=2048)
    client_id: str = Field(default="")
    client_secret: str | None = Field(default=None, repr=False)
    refresh_token: str | None = Field(default=None, repr=False)
    private_key: str | None = Field(default=None, repr=False)
    scope: str | None = None
    audience: str | None = None
    resource: str | None = None

    @field_validator("scope", mode="before")
    @classmethod
    def _joined(cls, value: Any) -> Any:
        if isinstance(value, list) and all(isinstance(member, str) for member in value):
            value = " ".join(value)
        return value or None

    @field_validator("grant_type", "token_endpoint_auth_method", mode="before")
    @classmethod
    def _known_or_default(cls, value: Any, info: Any) -> Any:
        # UTCP does not define these members, so that a value of another meaning is ignored like any other.
        known = get_args(cls.model_fields[info.field_name].annotation)
        return value if value in known else cls.model_fields[info.field_name].default

    @field_validator("token_url")
    @classmethod
    def _is_http(cls, value: str) -> str:
        if "$" not in value and not value.lower().startswith(("https://", "http://")):
            raise ValueError("A token URL must begin with https:// (or http://)")
        return value


AnyAuth = (
    ApiKeyAuth
    | BasicAuth
    | BearerAuth
    | OAuth2Auth
    | DigestAuth
    | AwsSigV4Auth
    | HmacAuth
    | GoogleServiceAccountAuth
)
Auth = Annotated[AnyAuth, Field(discriminator="auth_type")]
_MODELS: Final[Mapping[str, type[AnyAuth]]] = {
    "api_key": ApiKeyAuth, "basic": BasicAuth, "bearer": BearerAuth, "oauth2": OAuth2Auth,
    "digest": DigestAuth, "aws_sigv4": AwsSigV4Auth, "hmac": HmacAuth,
    "google_service_account": GoogleServiceAccountAuth,
}  # fmt: skip


def read_auth(raw: Any, *, location: str = "") -> AnyAuth:
    """Parse an auth object, accepting variant spellings of its type; raise InvalidInput with pointers
    below `location`.
    """
    if isinstance(raw, AnyAuth):
        return raw
    if not isinstance(raw, Mapping):
        raise InvalidInput(
            "auth must be an object", errors=[FieldError(location, "Must be an object with `auth_type`.")]
        )
    kind = _read_kind(raw)
    model = _MODELS.get(kind)
    if model is None:
        error = FieldError(
            pointer(location, "auth_type"), "This auth_type is not supported.", expected=sorted(_MODELS)
        )
        raise InvalidInput("The auth_type is not supported", errors=[error])
    try:
        return model.model_validate({**raw, "auth_type": kind})
    except ValidationError as error:
        raise InvalidInput(
            "The auth object is not valid", errors=convert_field_errors(error, location=location)
        ) from None


def convert_auth(auth: Any, *, at: str = "") -> CredentialDraft:
    """Return the credential draft of a UTCP auth object (or model). Its values may contain `${VARIABLES}`.

    Raises InvalidInput for an invalid auth object, and for a name or value that cannot be sent.
    """
    match read_auth(auth, location=at):
        case ApiKeyAuth(api_key=value, var_name=name, location=location):
            _check_name(name, location, at=pointer(at, "var_name"))
            _check_value(value, at=pointer(at, "api_key"))
            return CredentialDraft("api_key", {"location": location, "name": name}, {"value": value})
        case BasicAuth(username=username, password=password):
            return CredentialDraft("basic", {}, {"username": username, "password": password})
        case BearerAuth(token=token, scheme=scheme):
            return build_bearer_draft(token, scheme=scheme, location=at)
        case DigestAuth(username=username, password=password):
            return CredentialDraft("digest", {}, {"username": username, "password": password})
        case AwsSigV4Auth() as aws:
            names = ("access_key_id", "secret_access_key", "session_token")
            secrets = {name: value for name in names if (value := getattr(aws, name))}
            return CredentialDraft("aws_sigv4", {"region": aws.region, "service": aws.service}, secrets)
        case HmacAuth() as signature:
            return build_hmac_draft(signature, secret=signature.secret, key_id=signature.key_id, location=at)
        case GoogleServiceAccountAuth() as google:
            return build_google_draft(
                google.key, scope=google.scope, subject=google.subject, at=pointer(at, "key")
            )
        case OAuth2Auth() as oauth:
            return build_oauth2_draft(oauth, at=at)


def build_bearer_draft(token: str, *, scheme: str | None, location: str = "") -> CredentialDraft:
    """Return the draft of a token; raise InvalidInput for one with control characters."""
    _check_value(token, at=pointer(location, "token"))
    return CredentialDraft("bearer", {"scheme": scheme} if scheme else {}, {"token": token})


def build_hmac_draft(
    recipe: SignatureRecipe, *, secret: str, key_id: str | None, location: str = ""
) -> CredentialDraft:
    """Return the draft of an HMAC signature; raise InvalidInput for a recipe that names an absent key id."""
    uses = "".join((recipe.string_to_sign, recipe.header_value, *recipe.headers.values()))
    if "{key_id}" in uses and not key_id:
        error = FieldError(pointer(location, "key_id"), "Give the key id that the recipe names.")
        raise InvalidInput("The key id of the signature is missing.", errors=[error])
    secrets = {"secret": secret} | ({"key_id": key_id} if key_id else {})
    return CredentialDraft("hmac", recipe.public(), secrets)


def convert_field_errors(error: ValidationError, *, location: str = "") -> list[FieldError]:
    """Return pydantic's errors as field errors, without the rejected values, which may be secrets."""
    return [
        FieldError(pointer(location, *detail["loc"]), detail["msg"].removeprefix("Value error, "))
        for detail in error.errors(include_url=False, include_input=False, include_context=False)
    ]


def _read_kind(raw: Mapping[str, Any]) -> str:
    auth_type = raw.get("auth_type") or raw.get("type")
    if isinstance(auth_type, str):
        kind = auth_type.strip().lower().replace("-", "_").replace(" ", "_")
        return _SPELLINGS.get(kind, kind)
    for key, kind in (
        ("token_url", "oauth2"),
        ("username", "basic"),
        ("token", "bearer"),
        ("api_key", "api_key"),
    ):
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
