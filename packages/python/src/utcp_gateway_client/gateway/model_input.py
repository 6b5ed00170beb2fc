"""What a model responded, as JSON: objects of the SDKs of model providers, and of pydantic, as they are."""

import base64
import dataclasses
from collections.abc import Mapping
from typing import Any


def as_json(value: Any) -> Any:
    """Return `value` as what `json.dumps` accepts; raise TypeError for anything that has no JSON form.

    Pydantic models (openai, anthropic, google-genai, langchain) are written by their own rules, under the
    names of the wire; members without a value are left out. Bytes become Base64.
    """
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {str(name): as_json(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(each) for each in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: as_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return dump(mode="json", by_alias=True, exclude_none=True)
    raise TypeError(f"{type(value).__name__} has no JSON form.")
