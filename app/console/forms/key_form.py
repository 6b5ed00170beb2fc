"""The form of an API key: its fields, and the requests of the API that they make."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, Self

from starlette.datastructures import FormData, QueryParams

from app.console.views.key_words import ROLES

DEFAULT_EXPIRY: Final = "90"
_EXPIRY_DAYS: Final = frozenset({"30", "90", "365"})
_ROLE_SCOPES: Final = {role.name: role.scopes for role in ROLES}
_TOOLSET_NAME_MAX: Final = 50
_LISTS: Final = ("scopes", "tools", "toolsets", "providers", "tags")
_PARAMETERS: Final = {name: name.removesuffix("s") for name in _LISTS}
"""The parameters of a link that fills in the form, each given once for each name of a list."""
_SEPARATORS: Final = re.compile(r"[\s,]+")
_LINES: Final = re.compile(r"\s*[\r\n]+\s*")


@dataclass(frozen=True, slots=True)
class KeyForm:
    """The fields of a form, as they were given: the API judges them.

    `role` is the name of one of ROLES, or `custom` for `scopes`. `expiry` is a number of days, `never`,
    `date` for `expires_on`, or `keep` for what the key has. With `tools`, the key is limited to a new toolset
    of these tools, `toolset_name`.
    """

    name: str = ""
    owner: str = ""
    purpose: str = ""
    role: str = "agent"
    scopes: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    toolset_name: str = ""
    toolsets: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    expiry: str = DEFAULT_EXPIRY
    expires_on: str = ""
    requests: str = ""
    per_seconds: str = ""
    burst: str = ""
    argument_repair: str = ""
    schemas: str = ""

    @classmethod
    def from_query(cls, query: QueryParams) -> Self:
        """Return the form that a link fills in: `?tool=a&tool=b&name=...`, `provider`, `toolset`, `tag`."""
        texts = {name: query.get(name, "") for name in cls.__dataclass_fields__ if name not in _LISTS}
        lists = {name: _drop_duplicates(query.getlist(_PARAMETERS[name])) for name in _LISTS}
        given = {name: value for name, value in {**texts, **lists}.items() if value}
        form = cls(**given)  # type: ignore[arg-type]
        return replace(form, toolset_name=form.toolset_name or form.proposed_toolset_name())

    @classmethod
    def from_form(cls, form: FormData) -> Self:
        """Return the submitted fields; lists are several fields of a name, or one name a line."""
        given: dict[str, Any] = {
            name: str(form.get(name, "")).strip() for name in cls.__dataclass_fields__ if name not in _LISTS
        }
        for name in _LISTS:
            separator = _LINES if name == "tags" else _SEPARATORS
            texts = [part for text in form.getlist(name) for part in separator.split(str(text))]
            given[name] = _drop_duplicates(text.strip() for text in texts)
        return cls(**given)

    @classmethod
    def from_key(cls, key: Mapping[str, Any]) -> Self:
        """Return the form of a key of the API."""
        limit = key["rate_limit"] or {}
        scopes = frozenset(key["scopes"])
        return cls(
            name=key["name"],
            owner=key["owner"],
            purpose=key["purpose"],
            role=next((name for name, held in _ROLE_SCOPES.items() if held == scopes), "custom"),
            scopes=tuple(key["scopes"]),
            toolsets=tuple(key["toolsets"] or ()),
            providers=tuple(key["providers"] or ()),
            tags=tuple(key["tags"] or ()),
            expiry="keep",
            expires_on=(key["expires_at"] or "")[:10],
            requests=str(limit.get("requests", "")),
            per_seconds=str(limit.get("per_seconds", "")),
            burst=str(limit.get("burst", "")),
            argument_repair=key["argument_repair"] or "",
            schemas=key["schemas"] or "",
        )

    @property
    def granted(self) -> list[str]:
        """The scopes that the form asks for."""
        return sorted(_ROLE_SCOPES.get(self.role, self.scopes))

    def proposed_toolset_name(self) -> str:
        """Return a name for the toolset of `tools`: that of the key, or of the first tool."""
        if not self.tools:
            return ""
        text = self.name or self.tools[0].rpartition(".")[2]
        return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-").lower()[:_TOOLSET_NAME_MAX] or "tools"

    def toolset_body(self) -> dict[str, Any]:
        """Return the body of `POST /toolsets` for `tools`."""
        return {
            "name": self.toolset_name or self.proposed_toolset_name(),
            "title": self.name[:80],
            "definition": {"tools": list(self.tools)},
        }

    def key_body(self, today: date) -> dict[str, Any]:
        """Return the body of `POST /keys`; `today` is the date in UTC from which days count."""
        body = {name: value for name, value in self.members(today).items() if value is not None}
        if self.tools:
            body["toolsets"] = [*self.toolsets, self.toolset_body()["name"]]
        return body

    def patch_body(self, key: Mapping[str, Any], today: date) -> dict[str, Any]:
        """Return the body of `PATCH /keys/{key_id}`: the members in which the form differs from the key."""
        before, after = KeyForm.from_key(key).members(today), self.members(today)
        changed = {name: value for name, value in after.items() if value != before[name]}
        if self.expiry == "keep":
            changed.pop("expires_at", None)
        else:
            changed["expires_at"] = after["expires_at"]
        return changed

    def expires_at(self, today: date) -> str | None:
        """Return when the key expires, RFC 3339: at the end of a day in UTC; None for never."""
        if self.expiry in _EXPIRY_DAYS:
            end = datetime(today.year, today.month, today.day, 23, 59, 59, tzinfo=UTC)
            return (end + timedelta(days=int(self.expiry))).isoformat().replace("+00:00", "Z")
        if self.expiry == "date":
            return f"{self.expires_on}T23:59:59Z"
        return None

    def members(self, today: date) -> dict[str, Any]:
        """Return all members of a key that the form has, None for what is not restricted."""
        limit = {"requests": self.requests, "per_seconds": self.per_seconds, "burst": self.burst}
        numbers = {name: whole_number(text) for name, text in limit.items() if text}
        return {
            "name": self.name,
            "owner": self.owner,
            "purpose": self.purpose,
            "scopes": self.granted,
            "toolsets": list(self.toolsets) or None,
            "providers": list(self.providers) or None,
            "tags": list(self.tags) or None,
            "expires_at": self.expires_at(today),
            "rate_limit": numbers or None,
            "argument_repair": self.argument_repair or None,
            "schemas": self.schemas or None,
        }


def field_errors(errors: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return what the API says about the fields of the form, by their names."""
    errors_by_field: dict[str, list[str]] = {}
    for error in errors:
        parts = str(error.get("pointer", "")).removeprefix("#").strip("/").split("/")
        name = parts[1] if parts[0] == "rate_limit" and len(parts) > 1 else parts[0]
        name = {"expires_at": "expires_on", "rate_limit": "requests", "definition": "tools"}.get(name, name)
        errors_by_field.setdefault(name, []).append(str(error.get("detail", "")))
    return {name: " ".join(texts) for name, texts in errors_by_field.items()}


def whole_number(text: str) -> int | str:
    """Return the number that a field has, or its text: the API says what is wrong with it."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else text


def _drop_duplicates(given: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one for one in given if one))
