"""A parsed body -> registrations. Every form that can be registered is told apart by its keys alone."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import orjson

from app.credentials.fields import VARIABLE_NAME
from app.credentials.model import GivenVariable
from app.credentials.origins import origin_of
from app.credentials.validation_errors import validated
from app.errors import Fault, InvalidInput
from app.protocols.manuals import detect
from app.protocols.registry import DEFAULT
from app.registration.input_models import CanonicalRegistration, Described, SourceInput, VariableInput
from app.registration.request_model import (
    PLAIN,
    DocumentOptions,
    RefusedEntry,
    Registration,
    Registrations,
    Source,
)
from app.schemas import PROVIDER_NAME
from app.text import pointer
from app.utcp.names import legal_name
from app.utcp.variables import candidates, find_variables

MOST_ENTRIES: Final = 1_000
_EXPECTED: Final = (
    "{name, source}, a UTCP call template or provider, a UTCP manual, an OpenAPI document, "
    "a list of providers, or {manual_call_templates}"
)


def read_registrations(
    raw: Any, *, name: str | None, body: bytes = b"", media_type: str = ""
) -> Registrations:
    """What a parsed body asks for. `name` stands in where the body has none; `body` are its bytes.

    Raises InvalidInput. In a list, an entry that cannot be read becomes a RefusedEntry.
    """
    if isinstance(raw, Mapping) and "source" in raw and not {"openapi", "swagger", "paths"} & raw.keys():
        return Registrations((read_canonical(raw, name=name),))
    kind = detect(raw)
    if kind == "providers_list":
        return _many(raw, at="", variables={})
    if kind == "manual_call_templates":
        return _many(
            raw["manual_call_templates"], at="/manual_call_templates", variables=raw.get("variables")
        )
    if kind in {"provider_v0", "call_template_v1"}:
        return Registrations((read_template_entry(raw, name=name),))
    if kind == "openapi":
        source = Source("document", body=body or orjson.dumps(raw), media_type=media_type)
        return Registrations((Registration(named(None, name), source),))
    if kind in {"manual_v0", "manual_v1"} or (isinstance(raw, Mapping) and "tools" in raw):
        return Registrations((Registration(named(None, name), Source("manual", value=raw)),))
    fault = Fault("", "The body is none of the forms that can be registered.", expected=_EXPECTED)
    raise InvalidInput("It cannot be told what is to be registered.", errors=[fault])


def read_canonical(raw: Mapping[str, Any], *, name: str | None, at: str = "") -> Registration:
    """`{name, source, options?, credentials?, variables?, tags?, limits?, description?}`."""
    body = validated(CanonicalRegistration, dict(raw), at=at)
    return described(
        body,
        name=named(body.name, name, at=pointer(at, "name")),
        source=_source(_given(body.source), at=pointer(at, "source")),
        at=at,
    )


def described(body: Described, *, name: str, source: Source, at: str = "") -> Registration:
    """A registration from its validated parts."""
    return Registration(
        name=name,
        source=source,
        description=body.description,
        tags=tuple(dict.fromkeys(body.tags)),
        limits=body.limits.stored(),
        options=_based(source) | body.options.stored(),
        option_secrets=body.options.secrets(),
        credentials={slot: given.given() for slot, given in body.credentials.items()},
        variables={key: given_variable(value) for key, value in body.variables.items()},
        at=at,
    )


def given_variable(body: VariableInput) -> GivenVariable:
    """A variable from its validated form."""
    return GivenVariable(body.value.get_secret_value(), body.secret)


def read_template_entry(
    raw: Mapping[str, Any],
    *,
    name: str | None,
    at: str = "",
    variables: Mapping[str, GivenVariable] | None = None,
) -> Registration:
    """A UTCP provider (0.x) or call template (1.x) whose own `name` becomes the provider's."""
    own = raw.get("name")
    wanted = provider_name(own) if isinstance(own, str) and own.strip() else None
    registered = named(wanted, name, at=pointer(at, "name"))
    source = Source("template", value=dict(raw), at=at)
    return Registration(registered, source, options=_based(source), variables=variables or {}, at=at)


def _based(source: Source) -> dict[str, Any]:
    """The option that the `base_url` of UTCP's `text` is: nothing else of that template is kept."""
    if source.kind != "template" or not isinstance(source.value.get("content"), str):
        return {}
    base = source.value.get("base_url")
    return {"base_url": base} if isinstance(base, str) and origin_of(base) else {}


def provider_name(raw: str) -> str:
    """A name as near to a UTCP manual's name as ours can be: `my.gw` becomes `my_gw`."""
    return legal_name(raw.strip())[:50].strip("_-") or "provider"


def named(own: str | None, fallback: str | None, *, at: str = "/name") -> str:
    """The provider's name: its own, else `?name=`; raises InvalidInput where there is none that fits."""
    chosen = own or fallback
    if chosen is None:
        fault = Fault(at, "Give a name in the body, or ?name= where the body has no place for one.")
        raise InvalidInput("The provider has no name.", errors=[fault])
    if not re.fullmatch(PROVIDER_NAME, chosen):
        fault = Fault(at, "The name does not fit.", expected=PROVIDER_NAME)
        raise InvalidInput("The provider's name cannot be used.", errors=[fault])
    return chosen


def _given(source: SourceInput) -> dict[str, Any]:
    # Not model_dump, which copies a document of a million values in seconds.
    members = ((name, getattr(source, name)) for name in SourceInput.model_fields)
    return {name: member for name, member in members if member is not None}


def _source(given: dict[str, Any], *, at: str) -> Source:
    how = document_options(given)
    source = _plain_source(given, at=at)
    if how != PLAIN and source.kind == "manual":
        fault = Fault(at, "root, overlay and follow_references go with an OpenAPI document.")
        raise InvalidInput("The source is a manual, which has none of these.", errors=[fault])
    if how.follows and source.kind == "document":
        fault = Fault(pointer(at, "follow_references"), "This goes with a url or a call_template.")
        raise InvalidInput("The source holds what it cannot use.", errors=[fault])
    return replace(source, how=how)


def document_options(given: Mapping[str, Any]) -> DocumentOptions:
    """`root`, `overlay` and `follow_references` of a validated source."""
    overlay = given.get("overlay")
    text = orjson.dumps(overlay).decode() if isinstance(overlay, Mapping) else overlay
    return DocumentOptions(given.get("root"), text, bool(given.get("follow_references")))


def _plain_source(given: dict[str, Any], *, at: str) -> Source:
    kinds = [key for key in ("url", "document", "manual", "call_template") if key in given]
    if len(kinds) != 1:
        fault = Fault(at, "Give exactly one of url, document, manual and call_template.")
        raise InvalidInput("The source is not clear.", errors=[fault])
    kind = kinds[0]
    beside: dict[str, Any] = {key: given[key] for key in ("headers", "auth", "auth_tools") if key in given}
    if kind == "url":
        template = {"call_template_type": DEFAULT, "url": given["url"], **beside}
        return Source("template", value=template, at=at)
    if beside:
        place = next(iter(beside))
        fault = Fault(pointer(at, place), "This goes with a url only; a call_template holds its own.")
        raise InvalidInput("The source holds what it cannot use.", errors=[fault])
    if kind == "call_template":
        return Source("template", value=given[kind], at=pointer(at, kind))
    if kind == "manual":
        return Source("manual", value=given[kind], at=pointer(at, kind))
    document = given[kind]
    if isinstance(document, str):
        return Source("document", body=document.encode("utf-8", "replace"), at=pointer(at, kind))
    if detect(document) in {"manual_v0", "manual_v1"}:
        return Source("manual", value=document, at=pointer(at, kind))
    return Source(
        "document", body=orjson.dumps(document), media_type="application/json", at=pointer(at, kind)
    )


def _many(entries: Sequence[Any], *, at: str, variables: Any) -> Registrations:
    if not entries or len(entries) > MOST_ENTRIES:
        fault = Fault(at, f"Give 1 to {MOST_ENTRIES} entries.", expected="array")
        raise InvalidInput("The list has no entries, or too many.", errors=[fault])
    read: list[Registration | RefusedEntry] = []
    for index, entry in enumerate(entries):
        place = pointer(at, index)
        read.append(attempt(partial(_entry, entry, place, variables), entry))
    return Registrations(tuple(read), many=True)


def attempt(read: Callable[[], Registration], entry: Any) -> Registration | RefusedEntry:
    """The registration, or the verdict that it could not be read."""
    try:
        return read()
    except InvalidInput as error:
        name = entry.get("name") if isinstance(entry, Mapping) else None
        legible = name.replace("\x00", "")[:200] if isinstance(name, str) else None
        return RefusedEntry(legible, error)


def _entry(entry: Any, at: str, variables: Any) -> Registration:
    if not isinstance(entry, Mapping):
        fault = Fault(at, "Give an object.", expected="object")
        raise InvalidInput("An entry must be a provider or a call template.", errors=[fault])
    if "source" in entry:
        return read_canonical(entry, name=None, at=at)
    registration = read_template_entry(entry, name=None, at=at)
    mine = _configured(entry, registration.name, variables)
    return read_template_entry(entry, name=None, at=at, variables=mine)


def _configured(entry: Mapping[str, Any], provider: str, variables: Any) -> dict[str, GivenVariable]:
    """The variables of a UTCP client's configuration file that this entry names."""
    if not isinstance(variables, Mapping):
        return {}
    found: dict[str, GivenVariable] = {}
    for written in find_variables(dict(entry)):
        for spelling in candidates(written, provider):
            value = variables.get(spelling)
            if isinstance(value, str) and re.fullmatch(VARIABLE_NAME, spelling) and "\x00" not in value:
                found[spelling] = GivenVariable(value)
                break
    return found
