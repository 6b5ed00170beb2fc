"""Suggestions for unknown members of a request's body, from the fields of its pydantic models."""

import types
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from app.core.suggestions import did_you_mean, find_similar

_MAX_TYPES = 200


def describe_unknown_member(annotation: Any, location: Sequence[str | int]) -> str:
    """Return the sentence about an unknown member of a value of this type, with the names closest to it.

    `location` is taken from pydantic's error: its last part is the unknown name, and the other parts may
    include tags of unions.
    """
    names = dict.fromkeys(
        name for model in _find_models(annotation, location[:-1]) for name in _list_names(model)
    )
    suggestion = did_you_mean(find_similar(str(location[-1]), names))
    return f"This member is unknown. {suggestion}".rstrip()


def _find_models(annotation: Any, path: Sequence[str | int]) -> list[type[BaseModel]]:
    """Return the models that the value at the path may be an instance of."""
    candidates = list(_list_alternatives(annotation))
    for part in path:
        following = [inner for one in candidates for inner in _list_inner_types(one, part)]
        # A tag of a union is a part of the location, but not of the value.
        candidates = following or [one for one in candidates if _is_tagged(one, part)] or candidates
        candidates = candidates[:_MAX_TYPES]
    return [one for one in candidates if _is_model(one)]


def _list_alternatives(annotation: Any) -> Iterator[Any]:
    """Yield the types that a type consists of: the members of unions, without Annotated and aliases."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _list_alternatives(get_args(annotation)[0])
    elif origin in (Union, types.UnionType):
        for member in get_args(annotation):
            yield from _list_alternatives(member)
    else:
        yield annotation


def _list_inner_types(annotation: Any, part: str | int) -> Iterator[Any]:
    if _is_model(annotation):
        for name, field in annotation.model_fields.items():
            if part in (name, field.alias):
                yield from _list_alternatives(field.annotation)
    elif get_origin(annotation) in (list, tuple, set, frozenset) and isinstance(part, int):
        yield from _list_alternatives(get_args(annotation)[0])
    elif get_origin(annotation) is dict:
        yield from _list_alternatives(get_args(annotation)[1])


def _is_tagged(annotation: Any, tag: str | int) -> bool:
    """Return whether a tag of pydantic's location names this member of a union."""
    if not _is_model(annotation):
        return False
    literals = (
        get_args(field.annotation) for field in annotation.model_fields.values() if _is_literal(field)
    )
    return annotation.__name__ == tag or any(tag in values for values in literals)


def _is_literal(field: Any) -> bool:
    return get_origin(field.annotation) is Literal


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _list_names(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]
