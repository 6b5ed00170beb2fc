"""The grants of OAuth 2.0 that need no person at the call, and the drafts of their credentials.

    client_credentials    RFC 6749 section 4.4
    refresh_token         RFC 6749 section 6: a person has consented once, elsewhere
    jwt_bearer            RFC 7523 section 2.1: an assertion that a private key signs

A client authenticates itself by its secret, by an assertion (`private_key_jwt`, RFC 7523 section 2.2), or not
at all. A Google service account is the second grant with the members of its key file.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal, Protocol

import orjson
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from pydantic import BaseModel, Field

from app.core import exact_json
from app.core.errors import FieldError, InvalidInput
from app.core.text import pointer
from app.formats.utcp.variables import BRACED
from app.security.sealed_credentials import CredentialDraft

GrantType = Literal["client_credentials", "refresh_token", "jwt_bearer"]
AuthMethod = Literal["auto", "client_secret_basic", "client_secret_post", "private_key_jwt", "none"]
SigningAlgorithm = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"
]

GOOGLE_TOKEN_URL: Final = "https://oauth2.googleapis.com/token"
_CURVES: Final = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
_MIN_RSA_BITS: Final = 2048
# RSA with 4096 bits has 3,300 characters. Reading a key with 8192 bits takes seconds, in which nothing else
# runs, because its primes are tested.
_MAX_PEM_LENGTH: Final = 4_200
_KEYS: Final = "Give a key of RSA with 2048 to 4096 bits, P-256, P-384, P-521 or Ed25519."


class OAuth2Grant(BaseModel):
    """The members of a credential of kind oauth2 that say how a token is requested; none is secret."""

    grant_type: GrantType = Field(
        default="client_credentials",
        description="`refresh_token` needs the member of that name, `jwt_bearer` a `private_key`.",
    )
    token_endpoint_auth_method: AuthMethod = Field(
        default="auto",
        description="How the client authenticates itself. `auto`: by its secret, in the body or by HTTP "
        "Basic as the server accepts it; by `private_key` where there is no secret; else not at all.",
    )
    key_id: str | None = Field(
        default=None, max_length=500, description="The `kid` of assertions that `private_key` signs."
    )
    signing_algorithm: SigningAlgorithm | None = Field(
        default=None,
        description="Of these assertions. Default: RS256, ES256, ES384, ES512 or EdDSA by the key.",
    )
    issuer: str | None = Field(
        default=None,
        max_length=500,
        description="jwt_bearer: `iss` of the assertion. Default: the client id.",
    )
    subject: str | None = Field(
        default=None, max_length=500, description="jwt_bearer: `sub` of the assertion. Default: the issuer."
    )
    assertion_audience: str | None = Field(
        default=None, max_length=2048, description="`aud` of assertions. Default: the token URL."
    )


GRANT_MEMBERS: Final = tuple(OAuth2Grant.model_fields)
_SECRETS: Final = ("client_id", "client_secret", "refresh_token", "private_key")


class OAuth2Members(Protocol):
    """The members of a credential of kind oauth2, as text; None where absent."""

    token_url: str | None
    client_id: str
    client_secret: str | None
    refresh_token: str | None
    private_key: str | None
    scope: str | None
    audience: str | None
    resource: str | None


def build_oauth2_draft(
    oauth: Any, *, secrets: Mapping[str, str | None] | None = None, at: str = ""
) -> CredentialDraft:
    """Return the draft of an OAuth2 credential.

    `oauth` has the members of `OAuth2Members` and `OAuth2Grant`; `secrets` are given instead of its secret
    members where these are not plain text. Raise InvalidInput, with pointers below `at`, for a combination
    that no token endpoint could accept, and for a private key that cannot be read.
    """
    given = secrets if secrets is not None else {name: getattr(oauth, name) for name in _SECRETS}
    members = {name: value for name, value in given.items() if value is not None}
    errors = [FieldError(pointer(at, name), detail) for name, detail in _find_missing(oauth, members).items()]
    if errors:
        raise InvalidInput("The OAuth 2.0 credential is not complete.", errors=errors)
    if key := members.get("private_key"):
        check_private_key(key, algorithm=oauth.signing_algorithm, at=pointer(at, "private_key"))
    names = ("token_url", "scope", "audience", "resource", "token_endpoint_auth_method")
    public = {name: getattr(oauth, name) for name in names}
    if metadata_url := getattr(oauth, "metadata_url", None):
        public["metadata_url"] = metadata_url
    # Defaults are left out, as in credentials of before there were other grants: fingerprints stay equal.
    defaults = OAuth2Grant()
    for name in GRANT_MEMBERS:
        if getattr(oauth, name) != getattr(defaults, name):
            public[name] = getattr(oauth, name)
    return CredentialDraft("oauth2", public, members)


def build_google_draft(
    key: Mapping[str, Any] | str, *, scope: str | None, subject: str | None, at: str = ""
) -> CredentialDraft:
    """Return the draft of a Google service account; `key` is its JSON key file, as object or text.

    Raise InvalidInput, with the pointer `at`, for what is no such file. A text that is a variable is not
    read: then the token URL is Google's.
    """
    text = key if isinstance(key, str) else exact_json.dumps(dict(key)).decode()
    public = {"token_url": GOOGLE_TOKEN_URL, "scope": scope, "subject": subject}
    if BRACED.fullmatch(text.strip()) is None:
        account = read_google_key(text)
        if account is None:
            error = FieldError(at, "Give the JSON key file of a service account, with its private key.")
            raise InvalidInput("The key of the service account cannot be read.", errors=[error])
        check_private_key(account["private_key"], algorithm="RS256", at=at)
        public["token_url"] = account.get("token_uri") or GOOGLE_TOKEN_URL
    return CredentialDraft("google_service_account", public, {"key": text})


def read_google_key(text: str) -> dict[str, str] | None:
    """Return the texts of a key file of a service account; None where the text is none."""
    try:
        account = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(account, dict):
        return None
    texts = {name: value for name, value in account.items() if isinstance(value, str)}
    return texts if texts.get("client_email") and texts.get("private_key") else None


def check_private_key(pem: str, *, algorithm: str | None, at: str) -> None:
    """Raise InvalidInput, with the pointer `at`, for a private key that cannot sign assertions.

    A text with a variable is not read.
    """
    if BRACED.search(pem) is not None:
        return
    problem = None
    try:
        default = choose_algorithm(pem)
    except ValueError as error:
        problem = str(error)
    else:
        kinds = {"RS256": ("RS", "PS")}.get(default, (default,))
        if algorithm is not None and not algorithm.startswith(kinds):
            problem = f"The key cannot sign with {algorithm}: its algorithm is {default}."
    if problem is not None:
        raise InvalidInput("The private key cannot be used.", errors=[FieldError(at, problem)])


def choose_algorithm(pem: str) -> str:
    """Return the algorithm that a private key signs with; raise ValueError, without the key, for another."""
    check_key_length(pem)
    try:
        key = load_pem_private_key(pem.encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ValueError("Give a private key as PEM, not encrypted.") from None
    if isinstance(key, RSAPrivateKey) and key.key_size >= _MIN_RSA_BITS:
        return "RS256"
    if isinstance(key, EllipticCurvePrivateKey) and key.curve.name in _CURVES:
        return _CURVES[key.curve.name]
    if isinstance(key, Ed25519PrivateKey):
        return "EdDSA"
    raise ValueError(_KEYS)


def check_key_length(pem: str) -> None:
    """Raise ValueError, without the key, for a private key that would take too long to read."""
    if len(pem) > _MAX_PEM_LENGTH:
        raise ValueError(_KEYS)


def _find_missing(oauth: Any, members: Mapping[str, str]) -> dict[str, str]:
    """Return what to do about absent members, by their names."""
    problems: dict[str, str] = {}
    method, grant = oauth.token_endpoint_auth_method, oauth.grant_type
    if not members.get("client_id") and not (
        grant == "jwt_bearer" and method in ("auto", "none") and oauth.issuer
    ):
        problems["client_id"] = "Give the client id."
    if method.startswith("client_secret") and "client_secret" not in members:
        problems["client_secret"] = f"Give it: the client authenticates itself by {method}."
    has_key = bool(members.get("private_key"))
    if method == "private_key_jwt" and not has_key:
        problems["private_key"] = "Give it: the client authenticates itself by private_key_jwt."
    if grant == "client_credentials" and not ("client_secret" in members or has_key):
        problems["client_secret"] = "Give it, or a private_key: the grant needs one."
    if grant == "client_credentials" and method == "none":
        problems["token_endpoint_auth_method"] = "The grant client_credentials needs an authenticated client."
    if grant == "refresh_token" and not members.get("refresh_token"):
        problems["refresh_token"] = "Give it: the grant needs one."
    if grant == "jwt_bearer" and not has_key:
        problems["private_key"] = "Give it: the grant needs one."
    return problems
