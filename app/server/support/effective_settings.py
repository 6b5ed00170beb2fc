"""The effective settings as they may be shown: secrets only as set or unset, also where they are in a URL."""

import re
from typing import Any, Final

from pydantic import BaseModel, Field, SecretStr
from pydantic_core import PydanticUndefined

from app.core.settings import Settings
from app.core.telemetry.redaction import mask_shapes
from app.security.masking import Masker

# All that is before the last `@` of a URL: a password with `/` or `@` in it, which is no valid URL, too.
_USER_INFORMATION: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)[^\s,\"']*@")
_URL_QUERY: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://[^\s,\"'?]*)\?[^\s,\"']+")


class SettingView(BaseModel):
    """A setting of the process that responded."""

    name: str = Field(description="The environment variable.", examples=["CALL_LOG_MODE"])
    value: Any = Field(
        description="What it is; null where it is unset, and always for a secret. In a URL, what is before "
        "an `@` is left out, and the query is `***`.",
        examples=["fast"],
    )
    default: Any = Field(description="What it is where nobody sets it.", examples=["fast"])
    is_secret: bool
    is_set: bool = Field(description="Whether it has a value.")
    is_default: bool = Field(description="Whether the value is the default.")
    description: str


class SettingList(BaseModel):
    """All settings, in the order of the documentation."""

    items: list[SettingView]


def list_effective_settings(settings: Settings, masker: Masker) -> list[SettingView]:
    """Return the settings in the order of their declaration; `masker` knows the secrets of this process."""
    shown = settings.model_dump(mode="json")
    views = []
    for name, field in type(settings).model_fields.items():
        value = getattr(settings, name)
        is_secret = isinstance(value, SecretStr) or "SecretStr" in str(field.annotation)
        default = None if field.default is PydanticUndefined else field.default
        views.append(
            SettingView(
                name=name.upper(),
                value=None if is_secret else _mask_value(shown[name], masker),
                default=None if is_secret else _mask_value(_make_plain(default), masker),
                is_secret=is_secret,
                is_set=value is not None,
                is_default=value == default,
                description=field.description or "",
            )
        )
    return views


def _mask_value(value: Any, masker: Masker) -> Any:
    if isinstance(value, str):
        return masker.mask(mask_shapes(_URL_QUERY.sub(r"\1?***", _USER_INFORMATION.sub(r"\1", value))))
    if isinstance(value, list | tuple):
        return [_mask_value(one, masker) for one in value]
    if isinstance(value, dict):
        return {name: _mask_value(one, masker) for name, one in value.items()}
    return value


def _make_plain(value: Any) -> Any:
    """Return a default as JSON."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return [_make_plain(one) for one in value] if isinstance(value, list | tuple) else str(value)
