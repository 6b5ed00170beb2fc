"""The record of a protocol: all that other packages need of it without loading its adapter."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NoReturn, TypeAlias

from app.core.errors import GatewayError
from app.formats.utcp.call_template import CallTemplate
from app.formats.utcp.render import ManualVersion
from app.protocols.base import Adapter, AdapterContext
from app.protocols.shared.missing import MissingAdapter, is_missing

Fields: TypeAlias = Mapping[str, Any]
"""A stored call template in 1.x spelling, as plain JSON."""


class NotDirect(GatewayError):
    """Raised for a tool that a UTCP client cannot call without the gateway; `detail` is the reason."""

    status, slug, title = 422, "not-direct", "The tool cannot be called directly"
    hint = "Call the tool through the gateway: POST /tools/{name}/call."


@dataclass(frozen=True, slots=True)
class ClientConfiguration:
    """The configuration of a client of the protocol, as a call template.

    `pointer_in_template` is the JSON pointer of the part that is in the document at `pointer_in_document`.
    `name` is a name for the provider, None where the document suggests none.
    """

    template: dict[str, Any]
    pointer_in_template: str
    pointer_in_document: str
    name: str | None = None


def _no_configuration(document: Fields) -> None:  # noqa: ARG001 - most protocols have no such documents.
    return None


def _unchanged(fields: Fields) -> dict[str, Any]:
    return dict(fields)


def _own_name(name: str, fields: Fields) -> str:  # noqa: ARG001 - other protocols name tools by the template.
    return name


def _no_address(fields: Fields) -> str:  # noqa: ARG001 - most templates have one that is fixed.
    return ""


def _all_sent(
    fields: Fields,
    required: frozenset[str],  # noqa: ARG001 - other protocols have arguments that they cannot send.
) -> tuple[dict[str, Any], frozenset[str]]:
    return dict(fields), frozenset()


def _one_part(fields: Fields) -> list[dict[str, Any]]:
    return [dict(fields)]


def _does_not_stream(fields: Fields) -> bool:  # noqa: ARG001 - most tools respond once.
    return False


def _unknown_method(fields: Fields) -> None:  # noqa: ARG001 - most protocols have no methods.
    return None


def reads_only(fields: Fields) -> str:  # noqa: ARG001 - for `ProtocolRecord.http_method`.
    """Return GET: each call only reads."""
    return "GET"


def http_method(fields: Fields) -> str:
    """Return the method of an HTTP-based template, whose default is GET."""
    return str(fields.get("http_method") or "GET").upper()


DESTRUCTIVE_HTTP_METHODS: Final = MappingProxyType({"http_method": ("PUT", "DELETE")})
"""The `ProtocolRecord.destructive` of HTTP-based templates."""


def always_streams(fields: Fields) -> bool:  # noqa: ARG001 - for `ProtocolRecord.streams`.
    """Return True: each response of the protocol is a stream."""
    return True


def _no_command(fields: Fields) -> None:  # noqa: ARG001 - most protocols have no executors.
    return None


def _no_request(fields: Fields) -> None:  # noqa: ARG001 - most protocols are not HTTP.
    return None


def _no_operations(fields: Fields) -> tuple[str, ...]:  # noqa: ARG001 - most protocols have no names for them.
    return ()


def http_request(fields: Fields) -> tuple[str, str]:
    """Return method and URL of the template of a protocol over HTTP."""
    return http_method(fields), str(fields.get("url", ""))


def _not_reassigned(fields: Fields) -> None:  # noqa: ARG001 - most protocols keep all of their templates.
    return None


def not_direct_here(fields: Fields) -> NoReturn:  # noqa: ARG001 - for `DirectMode.native`.
    """Raise NotDirect for a tool that runs on the gateway's own machine."""
    raise NotDirect("It runs on the gateway's own machine.")


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectMode:
    """How UTCP clients call tools of a protocol without the gateway (`mode=direct`)."""

    by_default: bool = False
    """Whether tools of this protocol are included unless a client selects protocols: a client rejects a whole
    manual for one tool of a protocol for which it has no plugin.
    """
    versions: frozenset[ManualVersion] = frozenset({0, 1})
    """The generations of UTCP that have the protocol."""
    name_v0: str | None = None
    """The name of the protocol in UTCP 0.x, where it is another one."""
    without_unsendable: Callable[[Fields, frozenset[str]], tuple[dict[str, Any], frozenset[str]]] = _all_sent
    """Return a template without the arguments that UTCP's own members cannot send, and their names; those
    that are required (second parameter) stay.
    """
    native: Callable[[Fields], dict[str, Any]] = _unchanged
    """Return a template in UTCP's own members; raise NotDirect where these cannot express it."""
    finish: Callable[[Fields], dict[str, Any]] = _unchanged
    """Return a template in the form that clients expect; its secrets are variables already."""
    tool_name: Callable[[str, Fields], str] = _own_name
    """Return the name of a tool in the form that clients expect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolRecord:
    """One protocol. All functions take a stored template in 1.x spelling, its variables substituted."""

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
    """Whether servers publish no UTCP manual, so that the adapter generates one from their introspection."""
    may_be_local: bool = False
    """Whether tools may start programs or read files on the gateway's own machine."""
    is_content: bool = False
    """Whether a template is a document or a response itself, and names no server."""
    is_connected: bool = False
    """Whether calls are made by programs that connect to the gateway, so that there may be none."""
    command_name: Callable[[Fields], str | None] = _no_command
    """Return the command that such a program executes for a tool; None for other protocols."""
    inherits_template: bool = False
    """Whether a manual's tools without a call template are called with that of the manual."""
    socket_schemes: tuple[str, ...] = ()
    """Schemes of its origins `scheme://host:port` that are not those of HTTP."""
    datagram_schemes: tuple[str, ...] = ()
    """Those of `socket_schemes` that are no connections."""
    tls_schemes: tuple[str, ...] = ()
    """Those of `socket_schemes` that are connections with TLS."""
    program_schemes: tuple[str, ...] = ()
    """Schemes of its origins that name programs."""
    address: Callable[[Fields], str] = _no_address
    """Return the text that names the destination where variables decide the origin."""
    parts: Callable[[Fields], list[dict[str, Any]]] = _one_part
    """Return one template for each server that a template names."""
    part_pointer: Callable[[Fields], str] = _no_address
    """Return the JSON pointer of the one server in a template of `parts`; "" where templates name none."""
    reassign: Callable[[Fields], tuple[str, str] | None] = _not_reassigned
    """Return the protocol that a template belongs to in UTCP 1.x and a note, where it is not its own."""
    from_configuration: Callable[[Fields], ClientConfiguration | None] = _no_configuration
    """Return the configuration of a client that is no UTCP client; None for any other document."""
    streams: Callable[[Fields], bool] = _does_not_stream
    """Return whether responses are streams of values of their own, which a client reads as they arrive."""
    http_method: Callable[[Fields], str | None] = _unknown_method
    """Return the method of HTTP whose semantics a call has (RFC 9110 section 9), None where it is unknown."""
    request: Callable[[Fields], tuple[str, str] | None] = _no_request
    """Return method and URL of the HTTP request that a call sends; None where it sends none."""
    operations: Callable[[Fields], tuple[str, ...]] = _no_operations
    """Return the protocol's own names of what a call does at its origin; () where it has none."""
    destructive: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The values of a field with which `http_method` is PUT or DELETE, by the field's name, for lists of
    tools.
    """
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
