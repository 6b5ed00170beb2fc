"""A server as a document declares it, with the variables of its URL (OAS Server Object)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from app.openapi.conversion.text import clean, label
from app.openapi.model import Json

VARIABLE: Final = re.compile(r"\{([^{}]*)\}")
MAX_SERVERS: Final = 50
_MAX_TEXT: Final = 500
_MAX_ENUM: Final = 100


@dataclass(frozen=True, slots=True)
class ServerVariable:
    """A variable of a server URL. `default` is None where the registrar has to give a value.

    Without a default in the document it is the first value of its `enum`.
    """

    name: str
    default: str | None = None
    enum: tuple[str, ...] = ()
    description: str = ""

    @classmethod
    def of(cls, name: str, node: Any) -> "ServerVariable":
        """Return the variable that a Server Variable Object describes; `node` may be anything."""
        node = node if isinstance(node, dict) else {}
        listed = node.get("enum")
        values = [_read_text(one) for one in listed[:_MAX_ENUM]] if isinstance(listed, list) else []
        enum = tuple(dict.fromkeys(one for one in values if one is not None))
        default = _read_text(node.get("default"))
        if default is None and enum:
            default = enum[0]
        return cls(name, default, enum, clean(node.get("description"), max_length=_MAX_TEXT)[0])

    def value(self, given: str | None) -> str | None:
        """Return the registrar's value if the variable can have it, else its default."""
        return given if given is not None and (not self.enum or given in self.enum) else self.default

    def to_json(self) -> Json:
        """Return the variable as a member of a server in the report."""
        return {"default": self.default, "enum": list(self.enum), "description": self.description}


@dataclass(frozen=True, slots=True)
class DeclaredServer:
    """A server of the document: its URL as it is written, with `{variables}`, and what these can be."""

    url: str
    description: str = ""
    variables: tuple[ServerVariable, ...] = ()
    name: str = ""

    @classmethod
    def of(cls, node: Any) -> "DeclaredServer | None":
        """Return the server that a Server Object describes; None where it has no URL."""
        url = node.get("url") if isinstance(node, dict) else None
        if not isinstance(url, str):
            return None
        declared = node.get("variables")
        declared = declared if isinstance(declared, dict) else {}
        names = dict.fromkeys(VARIABLE.findall(url[:_MAX_TEXT]))
        variables = tuple(ServerVariable.of(name, declared.get(name)) for name in names)
        description = clean(node.get("description"), max_length=_MAX_TEXT)[0]
        return cls(url[:_MAX_TEXT], description, variables, label(node.get("name")))

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> "DeclaredServer":
        """Return the server that `to_json` wrote."""
        variables = tuple(
            ServerVariable(name, one["default"], tuple(one["enum"]), one["description"])
            for name, one in form["variables"].items()
        )
        return cls(form["url"], form["description"], variables, form.get("name", ""))

    def to_json(self) -> Json:
        """Return the server as a member of the report's `servers`."""
        variables = {one.name: one.to_json() for one in self.variables}
        form: Json = {"url": self.url, "description": self.description, "variables": variables}
        return {**form, "name": self.name} if self.name else form

    @property
    def host_variables(self) -> frozenset[str]:
        """The variables that can decide which host is called."""
        return find_host_variables(self.url)

    def is_named(self, name: str) -> bool:
        """Return whether the registrar means this server: by its name (3.2), its description, or its URL as
        written.
        """
        texts = (self.name, self.description)
        return name.rstrip("/") == self.url.rstrip("/") or any(
            text != "" and name.casefold() == text.casefold() for text in texts
        )


def find_host_variables(url: str) -> frozenset[str]:
    """Return the names of the variables in the authority of a server URL, or at its beginning."""
    _, mark, rest = url.partition("://")
    authority = re.split(r"[/?#]", rest if mark else url, maxsplit=1)[0]
    if not mark and not url.startswith("{"):
        return frozenset()
    return frozenset(VARIABLE.findall(authority))


def _read_text(value: Any) -> str | None:
    """Return a scalar of a document as text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    return str(value)
