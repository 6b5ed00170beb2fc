"""The parameter that is the whole query string: `in: querystring` of OAS 3.2."""

from collections.abc import Sequence
from dataclasses import replace

from app.core.media_types import parse_essence
from app.openapi.conversion.bodies import field_encoding
from app.openapi.conversion.parameters import Parameter, read_parameter_content
from app.openapi.reading.document import OpenApiDocument
from app.openapi.schemas.dialect import Mode

_FORM = "application/x-www-form-urlencoded"


def read_querystring(
    document: OpenApiDocument, parameters: Sequence[Parameter], *, notes: list[str]
) -> list[Parameter]:
    """Return the parameters with at most one `querystring`, which has the encoding of its fields.

    OAS 3.2 allows neither a second one nor `query` parameters beside it. Those are sent beside a form, of
    which they can be further fields, and left out beside any other content.
    """
    whole = next((one for one in parameters if one.location == "querystring"), None)
    if whole is None:
        return list(parameters)
    is_form = whole.content_type is not None and parse_essence(whole.content_type) == _FORM
    kept: list[Parameter] = []
    for parameter in parameters:
        if parameter is whole:
            kept.append(_with_encoding(document, parameter) if is_form else parameter)
        elif parameter.location == "querystring" or (parameter.location == "query" and not is_form):
            notes.append(
                f"{parameter.location} parameter `{parameter.name}` is left out: "
                f"`{whole.name}` is the whole query string"
            )
        else:
            kept.append(parameter)
    return kept


def _with_encoding(document: OpenApiDocument, parameter: Parameter) -> Parameter:
    content = read_parameter_content(document, parameter.node, parameter.pointer)
    if content is None:
        return parameter
    _, media_object, _ = content
    encoding, _ = field_encoding(
        document, media_object.get("schema"), media_object.get("encoding"), Mode.INPUT
    )
    return replace(parameter, encoding=encoding)
