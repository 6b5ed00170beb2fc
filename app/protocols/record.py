"""What the gateway knows of a protocol without loading its adapter: one record for each."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

from app.errors import GatewayError
from app.protocols.base import Adapter, AdapterContext
from app.protocols.shared.missing import MissingAdapter, is_missing
from app.utcp.call_template import CallTemplate
from app.utcp.render import ManualVersion

Fields: TypeAlias = Mapping[str, Any]
"""A stored call template in 1.x spelling, as plain JSON."""


class NotDirect(GatewayError):
    """A UTCP client could not call this tool by itself. `detail` says why."""

    status, slug, title = 422, "not-direct", "The tool cannot be called directly"


def _unchanged(fields: Fields) -> dict[str, Any]:
    return dict(fields)


def _own_name(name: str, fields: Fields) -> str:  # noqa: ARG001 - other protocols name tools by the template.
    return name


def _no_address(fields: Fields) -> str:  # noqa: ARG001 - most templates have one that is fixed.
    return ""


def _one_part(fields: Fields) -> list[dict[str, Any]]:
    return [dict(fields)]


def _not_reassigned(fields: Fields) -> None:  # noqa: ARG001 - most protocols keep all of their templates.
    return None


def not_direct_here(fields: Fields) -> NoReturn:  # noqa: ARG001 - for `DirectMode.native`.
    """Raise NotDirect for a tool that works on the gateway's own machine."""
    raise NotDirect("It works on the gateway's own machine.")


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectMode:
    """How clients of UTCP call tools of a protocol by themselves (`mode=direct`)."""

    by_default: bool = False
    """Whether every client is expected to read such tools: one of another protocol would cost a client
    without the plugin for it the whole manual.
    """
    versions: frozenset[ManualVersion] = frozenset({0, 1})
    """The generations of UTCP that have the protocol."""
    name_v0: str | None = None
    """The name of the protocol in UTCP 0.x, where it is another one."""
    native: Callable[[Fields], dict[str, Any]] = _unchanged
    """Return a template in UTCP's own members; raise NotDirect where these cannot say it."""
    finish: Callable[[Fields], dict[str, Any]] = _unchanged
    """Return a template whose secrets are variables as clients take it."""
    tool_name: Callable[[str, Fields], str] = _own_name
    """Return the name of a tool as clients take it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolRecord:
    """One protocol. All functions take a stored template in 1.x spelling, its variables written out."""

    name: str
    """Its `call_template_type` in UTCP 1.x."""
    template: type[CallTemplate]
    """The model of its call templates."""
    adapter: str
    """Where its adapter is, as `package.module:Class`; imported when the protocol is first used."""
    origin: Callable[[Fields], str]
    """Return where calls go; raise InvalidInput where there is no origin that is fixed and legal."""
    aliases: tuple[str, ...] = ()
    """Other spellings of the name, in lower case with `_` for `-`."""
    extra: str | None = None
    """The extra of the distribution that installs `libraries`."""
    libraries: tuple[str, ...] = ()
    """Top-level modules that the adapter imports and that may not be installed."""
    is_introspected: bool = False
    """Whether servers publish no UTCP manual: the adapter makes one of what they say of themselves."""
    may_be_local: bool = False
    """Whether tools may start programs or read files on the gateway's own machine."""
    is_content: bool = False
    """Whether a template is a document or a response itself, and no server is named by it."""
    inherits_template: bool = False
    """Whether a manual's tools without a call template are called with that of the manual."""
    socket_schemes: tuple[str, ...] = ()
    """Schemes of its origins `scheme://host:port` that are not those of HTTP."""
    program_schemes: tuple[str, ...] = ()
    """Schemes of its origins that name programs."""
    address: Callable[[Fields], str] = _no_address
    """Return the text that names the destination where variables decide the origin."""
    parts: Callable[[Fields], list[dict[str, Any]]] = _one_part
    """Return one template for each server that a template names."""
    reassign: Callable[[Fields], tuple[str, str] | None] = _not_reassigned
    """Return the protocol that a template belongs to by now, and a note that says so; None for its own."""
    direct: DirectMode = DirectMode()

    def load(self) -> Callable[[AdapterContext], Adapter[Any]]:
        """Return the class of the adapter; where its libraries are not installed, one whose `prepare` raises
        InvalidInput with the extra to install.
        """
        module, _, attribute = self.adapter.partition(":")
        try:
            found: Callable[[AdapterContext], Adapter[Any]] = getattr(
                importlib.import_module(module), attribute
            )
        except ImportError as error:
            if self.extra is None or not is_missing(error, self.libraries):
                raise
            name, extra = self.name, self.extra
            return lambda _: MissingAdapter(name, extra=extra)
        return found
