"""Responses in mode `mock`: an example that the tool's document states, else a value of its output schema.

A response is the same for the same seed, tool and arguments, in each process. Where there are several
examples, seed and arguments choose one. An output schema that requires more than a mock may have is an error
that says so: no response is cut to fit. The format of a response that is not JSON is the one that the
document states: XML, a form or text.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

import orjson

from app.catalog.plan import Plan
from app.core import exact_json
from app.core.errors import Conflict, GatewayError
from app.core.media_types import parse_essence
from app.formats.json_schema.budget import BudgetExceeded
from app.formats.json_schema.generated_values import generate_value, list_stated_examples
from app.formats.xml.shape import XmlShape
from app.formats.xml.writer import write_document

_JSON: Final = "application/json"
_TEXT: Final = "text/plain; charset=utf-8"
_FORM: Final = "application/x-www-form-urlencoded"


def generate_response(plan: Plan, arguments: Any, *, seed: int) -> tuple[int, str, bytes]:
    """Return status, media type and body of a response of a tool to these arguments.

    Without a schema it is an empty JSON object. The arguments have no influence but on which of the possible
    values is chosen. Raise Conflict where the output schema requires more than a mock may have.
    """
    content = exact_json.dumps(arguments, orjson.OPT_SORT_KEYS)
    digest = hashlib.sha256(b"%d\n%s\n%s" % (seed, plan.name.encode(), content)).digest()
    number = int.from_bytes(digest[:8], "big")
    spec = plan.response_spec
    stated = "" if spec is None or spec.status is None else spec.status
    status = int(stated) if stated.isdecimal() else 200
    if plan.outputs:
        value = _choose_value(plan.outputs, number)
        return status, _JSON, exact_json.dumps(value, orjson.OPT_NON_STR_KEYS)
    if spec is None or spec.json_schema is None:
        return status, _JSON, b"{}"
    value = _choose_value(spec.json_schema, number)
    media = parse_essence(spec.content_type or "")
    if media.endswith(("/xml", "+xml")):
        return status, media, _render_xml(value, spec.xml or XmlShape())
    if media == _FORM and isinstance(value, dict):
        pairs = [(name, _render_text(one)) for name, item in value.items() for one in _wrap_in_list(item)]
        return status, _FORM, urlencode(pairs).encode()
    return status, _TEXT, _render_text(value).encode()


def _choose_value(schema: Mapping[str, Any], number: int) -> Any:
    examples = list_stated_examples(schema)
    if examples:
        return examples[number % len(examples)]
    try:
        return generate_value(schema, seed=number)
    except BudgetExceeded as error:
        amount = f"{error.allowed:,} {error.limit}"
        raise Conflict(
            f"The output schema of the tool requires more than a mocked response may have ({amount}).",
            hint="State an example in the tool's output schema, which mocks return, or replay a recording.",
        ) from None


def _render_xml(value: Any, shape: XmlShape) -> bytes:
    node = shape.compile()
    name = shape.root
    if name is None and not (isinstance(value, dict) and len(value) == 1):
        name = "response"
    try:
        return write_document(value, node, name=name, charset="utf-8", text_of=_render_text, location="")
    except GatewayError:
        # A value that no document can hold, e.g. a member whose name is no name in XML.
        return b'<?xml version="1.0" encoding="UTF-8"?>\n<response/>'


def _wrap_in_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _render_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return exact_json.dumps(value).decode()
