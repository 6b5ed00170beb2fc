"""Authorisation of Postman requests as security schemes. Values of credentials are never taken over."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from app.openapi.model import Json

_FLOWS: Final = {
    "client_credentials": "clientCredentials",
    "authorization_code": "authorizationCode",
    "authorization_code_with_pkce": "authorizationCode",
    "password_credentials": "password",
    "implicit": "implicit",
}


@dataclass(slots=True)
class PostmanSchemes:
    """The security schemes of a collection; equal ones have one name."""

    schemes: Json = field(default_factory=dict)

    def require_auth(self, auth: Any, variables: Mapping[str, str]) -> Json:
        """Return the Security Requirement Object of an `auth` object; {} where it asks for nothing."""
        kind = auth.get("type") if isinstance(auth, Mapping) else None
        if not isinstance(auth, Mapping) or not isinstance(kind, str) or kind in ("noauth", "inherit"):
            return {}
        values = _read_values(auth.get(kind), variables)
        scopes: list[str] = []
        scheme: Json
        match kind:
            case "apikey":
                location = "query" if values.get("in") == "query" else "header"
                scheme = {"type": "apiKey", "in": location, "name": values.get("key", "")}
            case "basic" | "bearer" | "digest":
                scheme = {"type": "http", "scheme": kind}
            case "jwt":
                scheme = {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}
            case "oauth2":
                scheme, scopes = _build_oauth2(values)
            case "awsv4":
                # As documents of AWS declare it; region and service are members of the stored credential.
                scheme = {
                    "type": "apiKey", "in": "header", "name": "Authorization",
                    "x-amazon-apigateway-authtype": "awsSigv4",
                }  # fmt: skip
            case _:
                # hawk, ntlm, oauth1, edgegrid, asap: slots of kind `unsupported`.
                scheme = {"type": kind}
        return {self._add_named(kind, scheme): scopes}

    def add_parameter_scheme(self, name: str, location: str, value: str) -> str:
        """Return the scheme of a header or query parameter that holds a credential."""
        prefix = value.partition(" ")[0].lower()
        if name.lower() == "authorization" and prefix in ("basic", "bearer"):
            return self._add_named(prefix, {"type": "http", "scheme": prefix})
        if name.lower() == "cookie":
            name, location = value.partition("=")[0].strip() or "session", "cookie"
        return self._add_named(name, {"type": "apiKey", "in": location, "name": name})

    def _add_named(self, name: str, scheme: Json) -> str:
        chosen, number = name, 1
        while chosen in self.schemes and self.schemes[chosen] != scheme:
            number += 1
            chosen = f"{name}_{number}"
        self.schemes[chosen] = scheme
        return chosen


def _read_values(listed: Any, variables: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of an `auth` object, a list of `{key, value}` (2.1) or an object (2.0), with the
    variables that have a value.
    """
    if isinstance(listed, list):
        listed = {one.get("key"): one.get("value") for one in listed if isinstance(one, Mapping)}
    if not isinstance(listed, Mapping):
        return {}
    texts = {str(key): value for key, value in listed.items() if isinstance(value, str)}
    return {key: variables.get(value.strip()[2:-2].strip(), "") if _is_variable(value) else value
            for key, value in texts.items()}  # fmt: skip


def _is_variable(value: str) -> bool:
    text = value.strip()
    return text.startswith("{{") and text.endswith("}}") and text.count("{") == 2


def _build_oauth2(values: Mapping[str, str]) -> tuple[Json, list[str]]:
    scopes = values.get("scope", "").replace(",", " ").split()
    default = "authorizationCode" if values.get("authUrl") else "clientCredentials"
    flow: Json = {"scopes": dict.fromkeys(scopes, "")}
    for member, key in (("authorizationUrl", "authUrl"), ("tokenUrl", "accessTokenUrl")):
        if values.get(key):
            flow[member] = values[key]
    chosen = _FLOWS.get(values.get("grant_type", ""), default)
    return {"type": "oauth2", "flows": {chosen: flow}}, scopes
