"""Variables in call templates of protocols whose own syntax has a `$`, too.

A template with `parameters` came from OpenAPI and has none (`/$count` is a path). In a GraphQL document
`$name` is a variable of GraphQL, and in a text that is the response itself `$schema` is content, so that only
`${NAME}` is a variable there. In a command, `$CMD_0_OUTPUT` is the output of an earlier command. The contract
of a ToolClad manifest (`toolclad`) has placeholders of its own, and a `$` there is text.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from app.formats.utcp.call_template import CallTemplate, list_strings, replace_strings
from app.formats.utcp.variables import BRACED, Lookup, find_variables, substitute
from app.protocols.call_templates import protocol_of
from app.protocols.registry import PROTOCOLS

_CONTRACT: Final = "toolclad"


def variables_of(value: Any) -> list[str]:
    """Return the names of all variables in a stored template, or in any other JSON value, each once."""
    if not _is_template(value):
        return find_variables(value)
    if "parameters" in value:
        return []
    value = _without_contract(value)
    texts = _own_texts(value)
    names = find_variables(replace_strings(value, dict.fromkeys(texts, "")))
    names = [name for name in names if not _has_meaning(name, value)]
    return list(
        dict.fromkeys([*names, *(found for text in texts.values() for found in BRACED.findall(text))])
    )


def locations_of(value: Any) -> Iterator[tuple[str, str]]:
    """Yield the pointer of each text that names a variable, and the name."""
    is_template = _is_template(value)
    if is_template and "parameters" in value:
        return
    value = _without_contract(value) if is_template else value
    own = _own_texts(value) if is_template else {}
    for at, text in list_strings(value, ("/**",)):
        for name in BRACED.findall(text) if at in own else find_variables(text):
            if not (is_template and _has_meaning(name, value)):
                yield at, name


def with_variables(value: Any, lookup: Lookup) -> Any:
    """Return the template, or other JSON value, with its variables replaced, as `substitute` does."""
    if not _is_template(value):
        return substitute(value, lookup)
    if "parameters" in value:
        return value
    if _CONTRACT in value:
        return with_variables(_without_contract(value), lookup) | {_CONTRACT: value[_CONTRACT]}
    texts = _own_texts(value)
    find = lookup.get if isinstance(lookup, Mapping) else lookup

    def found(name: str) -> str | None:
        return f"${{{name}}}" if _has_meaning(name, value) else find(name)

    done = substitute(replace_strings(value, dict.fromkeys(texts, "")), found)
    if not texts:
        return done
    return replace_strings(done, {at: _braced(text, find) for at, text in texts.items()})


def _braced(text: str, find: Callable[[str], str | None]) -> str:
    # A missing value is no error: `${` may be part of a string of the protocol's own language.
    return BRACED.sub(lambda found: found[0] if (value := find(found[1])) is None else value, text)


def _without_contract(value: dict[str, Any]) -> dict[str, Any]:
    return {key: member for key, member in value.items() if key != _CONTRACT}


def _is_template(value: Any) -> bool:
    return isinstance(value, dict) and "call_template_type" in value


def _own_texts(value: dict[str, Any]) -> dict[str, str]:
    model = _model(value)
    return {} if model is None else dict(list_strings(value, model.braced_only))


def _has_meaning(name: str, value: dict[str, Any]) -> bool:
    """Return whether the protocol's own language gives `$name` a meaning."""
    model = _model(value)
    pattern = None if model is None else model.not_variables
    return pattern is not None and pattern.fullmatch(name) is not None


def _model(value: dict[str, Any]) -> type[CallTemplate] | None:
    record = PROTOCOLS.get(protocol_of(value))
    return None if record is None else record.template
