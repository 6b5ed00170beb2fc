"""Which documents are for the converter of OpenAPI, and the limits of the others."""

import pytest

from app.core.errors import TooLarge
from app.providers.registration.json_yaml import looks_like_openapi, parse_manual


def repeated(first: str, uses: int) -> bytes:
    """Return a small YAML document whose aliases expand to 100 nodes each."""
    values = ", ".join("v" for _ in range(100))
    return "\n".join(
        [first, f"x-values: &values [{values}]", *(f"x-{i}: *values" for i in range(uses))]
    ).encode()


async def test_aliases_of_an_openapi_document_are_counted_by_the_converter() -> None:
    assert await looks_like_openapi(repeated("openapi: 3.0.0", 2_500))


async def test_other_documents_are_limited_to_fewer_nodes() -> None:
    document = repeated("tools: []", 2_500)
    assert not await looks_like_openapi(document)
    with pytest.raises(TooLarge):
        await parse_manual(document)
