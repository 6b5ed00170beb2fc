"""Forms of real tools: those of the sample API, and of public APIs where their corpus was downloaded."""

import json

import pytest

from app.console.forms.schema_form import build, parse
from app.core.errors import GatewayError
from app.openapi import ConvertOptions
from app.openapi.conversion.convert import convert
from benchmarks.corpus.download import FOLDER, url_of
from tests.harness.html_forms import successful_controls
from tests.harness.schema_values import values_of
from tests.unit.console.test_schema_form import html_of

_MAX_DOCUMENT_BYTES = 400_000


def differences(name, schema, number):
    """Yield the values of a schema that do not survive its form."""
    for value in values_of(schema, name, number):
        found = parse(successful_controls(html_of(build(schema, value))), schema)
        if found.errors or json.dumps(found.value, sort_keys=True) != json.dumps(value, sort_keys=True):
            yield name, value, found


def test_forms_of_the_sample_api_are_exact(library):
    with library.client() as client:
        names = [tool["name"] for tool in client.get("/tools", params={"limit": 100}).json()["items"]]
        tools = [client.get(f"/tools/{name}").json() for name in names]
    assert len(tools) >= 6
    assert [one for tool in tools for one in differences(tool["name"], tool["inputs"], 20)] == []


@pytest.mark.time_limit(300)
def test_forms_of_public_apis_are_exact():
    if not (FOLDER / "complete").exists():
        pytest.skip("the corpus was not downloaded (make corpus)")
    files = sorted((FOLDER / "package" / "api").rglob("*.json"))[::40]
    count, found = 0, []
    for file in files:
        if file.stat().st_size > _MAX_DOCUMENT_BYTES:
            continue
        try:
            conversion = convert(file.read_bytes(), options=ConvertOptions(url=url_of(file)))
        except GatewayError:
            continue
        for tool in conversion.tools[:5]:
            count += 1
            found += differences(f"{file.parent.name} {tool.name}", tool.inputs, 3)
    assert count > 100
    assert found == []
