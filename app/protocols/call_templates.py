"""Call templates (1.x) and providers (0.x), read tolerantly and normalised to the spelling of 1.x."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from app.core.errors import FieldError, InvalidInput
from app.core.text import clean_text, pointer, reject_unstorable
from app.formats.utcp.call_template import CallTemplate, Template, compile_template
from app.formats.utcp.variables import VARIABLE
from app.protocols.registry import DEFAULT, PROTOCOLS, describe_missing_package

TYPE_KEYS: Final = ("call_template_type", "provider_type", "transport_type")


def read_template(raw: Any, *, at: str = "") -> Template:
    """Return a call template or provider of any protocol and version as one of 1.x.

    Raise InvalidInput, with pointers below `at`, for an unknown protocol and for what is not valid in it.
    """
    if not isinstance(raw, Mapping):
        raise InvalidInput("A call template must be an object", errors=[FieldError(at, "Give an object.")])
    protocol = _protocol(raw, at=at)
    reject_unstorable(PROTOCOLS[protocol].template.storable(raw), location=at)
    fields = {key: value for key, value in raw.items() if key not in TYPE_KEYS and key != "type"}
    reassigned = PROTOCOLS[protocol].reassign(fields)
    notes: tuple[str, ...] = ()
    if reassigned is not None:
        protocol, notes = reassigned[0], reassigned[1:]
    name = fields.pop("name", None)
    if name is not None and not isinstance(name, str):
        raise InvalidInput(
            "A name must be text", errors=[FieldError(pointer(at, "name"), "Give text.", "string")]
        )
    name = clean_text(name, pointer=pointer(at, "name")).strip() or None if name else None
    return Template(protocol, _compile_with_variables({**fields, "name": name}, protocol, at=at), notes)


def for_tool(template: Template, name: str, *, at: str = "") -> Template:
    """Return the template of the tool of this name; raise InvalidInput, with pointers below `at`, for one
    that names nothing which could be called.
    """
    try:
        return replace(template, model=template.model.for_tool(name))
    except InvalidInput as error:
        problems = [replace(problem, pointer=at + problem.pointer) for problem in error.errors]
        raise InvalidInput(f"It could never be called: {error.detail}", errors=problems) from None


def with_protocol(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return the template with the default protocol where it names none, in the spelling of any version."""
    named = any(key in raw for key in TYPE_KEYS)
    return dict(raw) if named else {**raw, "call_template_type": DEFAULT}


def protocol_of(raw: Mapping[str, Any]) -> str:
    """Return the protocol of a template in the 1.x spelling, as it is stored."""
    return str(raw.get("call_template_type") or DEFAULT)


def _compile_with_variables(fields: Mapping[str, Any], protocol: str, *, at: str) -> CallTemplate:
    """As `compile_template`; but one variable may stand where no other text could (`"port": "${PORT}"`): it
    is validated when its value is known.
    """
    model = PROTOCOLS[protocol].template
    try:
        return compile_template(fields, model, at=at)
    except InvalidInput as error:
        invalid_keys = {field_error.pointer.removeprefix(at + "/") for field_error in error.errors}
        variable_fields = {key: fields[key] for key in invalid_keys if _is_variable(fields.get(key))}
        if not variable_fields:
            raise
        required = {key for key in variable_fields if model.model_fields[key].is_required()}
        others = {key: value for key, value in fields.items() if key not in variable_fields}
        found = compile_template({**others, **dict.fromkeys(required, 1)}, model, at=at)
        return found.model_copy(update=variable_fields)


def _is_variable(value: Any) -> bool:
    return isinstance(value, str) and VARIABLE.fullmatch(value.strip()) is not None


def _protocol(raw: Mapping[str, Any], *, at: str) -> str:
    key = next((key for key in (*TYPE_KEYS, "type") if isinstance(raw.get(key), str)), None)
    if key is None:
        field_error = FieldError(
            pointer(at, "call_template_type"), "Name the protocol.", expected=sorted(PROTOCOLS)
        )
        raise InvalidInput("call_template_type (or provider_type) is missing", errors=[field_error])
    protocol = PROTOCOLS.canonical(str(raw[key]))
    if protocol not in PROTOCOLS:
        missing_package = describe_missing_package(protocol)
        if missing_package is not None:
            raise InvalidInput(missing_package, errors=[FieldError(pointer(at, key), missing_package)])
        field_error = FieldError(pointer(at, key), "UTCP knows no such protocol.", expected=sorted(PROTOCOLS))
        raise InvalidInput("The protocol is not known", errors=[field_error])
    return protocol
