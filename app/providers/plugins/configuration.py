"""The configuration of a plugin, checked: settings and credentials -> what a registration needs of them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, NoReturn
from urllib.parse import parse_qsl, unquote, urlsplit

from pydantic import Field

from app.core.errors import FieldError, InvalidInput
from app.core.schemas import StrictModel
from app.core.text import pointer
from app.providers.credentials.input_models import CredentialInput, SecretText, SlotName
from app.providers.credentials.model import CredentialDraft, VariableDraft
from app.providers.plugins.entry import (
    PLACEHOLDER,
    PluginCredential,
    PluginEntry,
    PluginSetting,
    SettingName,
    SettingValue,
)

SSL_MODES: Final = ("verify-full", "require", "disable")
_SCHEMES: Final = ("postgresql", "postgres")
_DEFAULT_PORT: Final = 5432


class PluginConfiguration(StrictModel):
    """What a plugin is enabled with. What is left out stays as it is where the plugin is enabled already."""

    settings: dict[SettingName, SettingValue] = Field(
        default_factory=dict, max_length=50, description="Values by name; `GET /plugins/{name}` lists them."
    )
    credentials: dict[SlotName, SecretText | CredentialInput] = Field(
        default_factory=dict,
        max_length=20,
        description="Credentials by slot: a text for the kinds `bearer` and `api_key`, `user:password` for "
        "`basic`, a URL for `connection_string`; else as in `PUT /providers/{name}/credentials/{slot}`.",
        examples=[{"token": "ghp_example"}],
    )
    document: (
        Annotated[
            dict[str, Any] | str,
            Field(
                description="The vendor's document, where the gateway "
                "cannot fetch it: an object, or its text as JSON or YAML."
            ),
        ]
        | None
    ) = None


@dataclass(frozen=True, slots=True)
class ReadConfiguration:
    """A checked configuration: values of all settings, and credentials as slots of a document, or variables
    of a manual. `connections` are the parts of connection strings that are no secrets, by slot.
    """

    settings: Mapping[str, Any]
    credentials: Mapping[str, CredentialDraft] = field(default_factory=dict, repr=False)
    variables: Mapping[str, VariableDraft] = field(default_factory=dict, repr=False)
    connections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def place(self, value: Any, *, base_url: str | None) -> Any:
        """Return a part of a manual with the values of its settings in it."""
        if isinstance(value, dict):
            return {key: self.place(member, base_url=base_url) for key, member in value.items()}
        if isinstance(value, list):
            return [self.place(member, base_url=base_url) for member in value]
        if not isinstance(value, str):
            return value
        whole = PLACEHOLDER.fullmatch(value)
        if whole is not None:
            return self._value(whole[1], base_url)
        return PLACEHOLDER.sub(lambda match: str(self._value(match[1], base_url)), value)

    def _value(self, name: str, base_url: str | None) -> Any:
        slot, dot, part = name.partition(".")
        if dot:
            return self.connections.get(slot, {}).get(part)
        if name in self.settings:
            return self.settings[name]
        return base_url if name == "base_url" else None


def read_settings(entry: PluginEntry, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value of each setting that has one; raise InvalidInput with a pointer to each error."""
    errors = [
        FieldError(pointer("/settings", name), f"The plugin {entry.name} has no setting of this name.",
                   expected=sorted(entry.settings))
        for name in given
        if name not in entry.settings
    ]  # fmt: skip
    values: dict[str, Any] = {}
    for name, setting in entry.settings.items():
        at = pointer("/settings", name)
        if name in given:
            problem = _problem(setting, given[name])
            if problem:
                errors.append(FieldError(at, problem))
            value = given[name]
            values[name] = value.rstrip("/") if setting.type == "url" and isinstance(value, str) else value
        elif setting.required:
            errors.append(FieldError(at, f"Give this setting: {setting.title}."))
        elif setting.default is not None:
            values[name] = setting.default
    if errors:
        raise InvalidInput(f"The settings of the plugin {entry.name} are not valid.", errors=errors)
    return values


def _problem(setting: PluginSetting, value: Any) -> str:
    """Return why a value is not one of a setting, "" where it is."""
    if setting.type == "boolean":
        return "" if isinstance(value, bool) else "Give true or false."
    if setting.type == "integer":
        if not isinstance(value, int) or isinstance(value, bool):
            return "Give a whole number."
        if setting.minimum is not None and value < setting.minimum:
            return f"Give at least {setting.minimum}."
        if setting.maximum is not None and value > setting.maximum:
            return f"Give at most {setting.maximum}."
        return ""
    if not isinstance(value, str) or not value or not value.isprintable():
        return "Give a text."
    # In a template these would be variables and arguments.
    if "$" in value or "{" in value or "}" in value:
        return "Give a text without $ and braces."
    if setting.pattern is not None and re.fullmatch(setting.pattern, value) is None:
        return f"The text does not match {setting.pattern}."
    if setting.type == "url":
        return _url_problem(value)
    if setting.type == "folder" and not value.startswith("/"):
        return "Give an absolute path."
    return ""


def _url_problem(value: str) -> str:
    try:
        parts = urlsplit(value)
        is_usable = parts.scheme in ("https", "http") and parts.hostname and "@" not in parts.netloc
    except ValueError:
        is_usable = False
    if not is_usable or parts.query or parts.fragment:
        return "Give an absolute https:// (or http://) URL without userinfo, query and fragment."
    return ""


def read_credentials(
    entry: PluginEntry, given: Mapping[str, Any], *, settings: Mapping[str, Any]
) -> ReadConfiguration:
    """Return the credentials that a request has; raise InvalidInput with a pointer to each error."""
    errors: list[FieldError] = []
    credentials: dict[str, CredentialDraft] = {}
    variables: dict[str, VariableDraft] = {}
    connections: dict[str, Mapping[str, Any]] = {}
    for slot, value in given.items():
        at = pointer("/credentials", slot)
        described = entry.credentials.get(slot)
        if described is None:
            detail = f"The plugin {entry.name} takes no credential of this name."
            errors.append(FieldError(at, detail, expected=sorted(entry.credentials)))
            continue
        try:
            if entry.document is not None:
                credentials[slot] = _draft(described, value, at=at)
            elif described.kind == "connection_string":
                parts, secrets = _connection(described, value, at=at)
                connections[slot], variables = parts, variables | secrets
            else:
                variables |= _variables(described, value, at=at)
        except InvalidInput as error:
            errors += error.errors
    if errors:
        raise InvalidInput(f"The credentials of the plugin {entry.name} are not valid.", errors=errors)
    return ReadConfiguration(settings, credentials, variables, connections)


def reject_missing(entry: PluginEntry, configured: frozenset[str]) -> None:
    """Raise InvalidInput where a credential is not configured; `configured` are the slots that have one."""
    missing = {
        slot: one for slot, one in entry.credentials.items() if one.required and slot not in configured
    }
    if not missing:
        return
    first = next(iter(missing.values()))
    where = f" {first.url}" if first.url else ""
    slot = next(iter(missing))
    raise InvalidInput(
        first.missing_message,
        errors=[
            FieldError(pointer("/credentials", name), f"{one.missing_message}: {one.help}")
            for name, one in missing.items()
        ],
        hint=f"{first.help}{where} Then give it as the credential `{slot}`, or by `utcp-gateway plugins "
        f"enable {entry.name} --credential-env {first.environment}`.",
    )


def variable_names(described: PluginCredential) -> tuple[str, ...]:
    """Return the names of the variables that a manual's credential consists of."""
    if described.kind in ("basic", "digest", "connection_string"):
        return (f"{described.environment}_USERNAME", f"{described.environment}_PASSWORD")
    return (described.environment,)


def _variables(described: PluginCredential, value: Any, *, at: str) -> dict[str, VariableDraft]:
    text = _text(value, at=at)
    names = variable_names(described)
    values = (text,) if len(names) == 1 else _password(text, at=at)
    return {name: VariableDraft(one) for name, one in zip(names, values, strict=True)}


def _draft(described: PluginCredential, value: Any, *, at: str) -> CredentialDraft:
    """Return a credential for a slot of a document."""
    if not hasattr(value, "get_secret_value"):
        if value.kind != described.kind:
            _reject(at, f"Give a credential of the kind {described.kind}.")
        draft: CredentialDraft = value.to_draft(at=at)
        return draft
    text = _text(value, at=at)
    if described.kind == "bearer":
        return CredentialDraft("bearer", {}, {"token": text})
    if described.kind == "api_key":
        return CredentialDraft("api_key", {"location": None, "name": None}, {"value": text})
    if described.kind in ("basic", "digest"):
        username, password = _password(text, at=at)
        kind: Any = described.kind
        return CredentialDraft(kind, {}, {"username": username, "password": password})
    return _reject(at, f"Give an object: a credential of the kind {described.kind} has several members.")


def _connection(
    described: PluginCredential, value: Any, *, at: str
) -> tuple[Mapping[str, Any], dict[str, VariableDraft]]:
    """Return the parts of a connection string that are no secrets, and the others as variables."""
    try:
        parts = urlsplit(_text(value, at=at))
        port = parts.port or _DEFAULT_PORT
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
    except ValueError:
        return _reject(at, "Give a URL like postgresql://user:password@host:5432/database.")
    database = unquote(parts.path.removeprefix("/"))
    if (
        parts.scheme not in _SCHEMES
        or not parts.hostname
        or not parts.username
        or not database
        or "/" in database
    ):
        return _reject(at, "Give a URL like postgresql://user:password@host:5432/database.")
    sslmode = options.pop("sslmode", SSL_MODES[0])
    if options or parts.fragment:
        return _reject(at, "Of the options only sslmode is used.")
    if sslmode not in SSL_MODES:
        return _reject(at, f"Give one of these as sslmode: {', '.join(SSL_MODES)}.")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    names = variable_names(described)
    secrets = (unquote(parts.username), unquote(parts.password or ""))
    shown = {"host": host, "port": port, "database": database, "sslmode": sslmode}
    return shown, {name: VariableDraft(one) for name, one in zip(names, secrets, strict=True)}


def _password(text: str, *, at: str) -> tuple[str, str]:
    username, colon, password = text.partition(":")
    if not colon or not username:
        _reject(at, "Give it as user:password.")
    return username, password


def _text(value: Any, *, at: str) -> str:
    if not hasattr(value, "get_secret_value"):
        _reject(at, "Give it as a text.")
    return str(value.get_secret_value())


def _reject(at: str, detail: str) -> NoReturn:
    raise InvalidInput("The credential is not valid.", errors=[FieldError(at, detail)])
