"""A parameter that is the whole query string (OAS 3.2, `in: querystring`)."""

from collections.abc import Callable
from typing import Any

from app.core.media_types import parse_essence
from app.core.text import pointer
from app.formats.utcp.percent import escape
from app.protocols.requests.bodies import body_encoder
from app.protocols.requests.styles import content_text
from app.protocols.requests.templates import BodySpec, ParameterSpec

_FORM = "application/x-www-form-urlencoded"


def querystring_encoder(spec: ParameterSpec) -> Callable[[Any], str]:
    """Return the encoder of the whole query string: value -> its text, "" for a form without fields.

    A form is a query string as it is; the text of any other content type is percent-encoded.
    """
    at, media = pointer("", spec.input), spec.content_type or _FORM
    if parse_essence(media) != _FORM:
        return lambda value: escape(content_text(value, media, at=at))
    form = body_encoder(BodySpec(content_type=_FORM, encoding=spec.encoding), at=at)
    return lambda value: form(value)[0].decode("ascii")
