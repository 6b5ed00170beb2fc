"""Sequential media types (OAS 3.2): a Media Type Object with `itemSchema` describes a list of such items."""

from app.openapi.model import Json
from app.openapi.reading.document import OpenApiDocument
from app.openapi.schemas.closure import Fragment
from app.openapi.schemas.dialect import Mode


def sequence_fragment(document: OpenApiDocument, media_object: Json, pointer: str, *, mode: Mode) -> Fragment:
    """Return the schema of a sequence: a list whose items have the `itemSchema`, and which has the `schema`.

    `pointer` is that of the Media Type Object, which has an `itemSchema`. Raises RefProblem as
    `SchemaRegistry.fragment` does.
    """
    item = document.schemas.convert_schema(media_object["itemSchema"], f"{pointer}/itemSchema", mode=mode)
    schema: Json = {"type": "array", "items": item.schema}
    if media_object.get("schema", True) is True:
        return Fragment(schema, item.refs, (), item.size + 30, item.notes)
    whole = document.schemas.convert_schema(media_object["schema"], f"{pointer}/schema", mode=mode)
    schema["allOf"] = [whole.schema]
    refs = tuple(dict.fromkeys((*whole.refs, *item.refs)))
    notes = tuple(dict.fromkeys((*whole.notes, *item.notes)))
    return Fragment(schema, refs, whole.in_place, whole.size + item.size + 50, notes)
