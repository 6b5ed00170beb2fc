"""What the OpenAPI document says beside FastAPI's: links, and what fuzzing found to be wrong."""

import pytest

from app.server.openapi_document import LINKS
from tests.harness.contract import CONTRACT


@pytest.fixture(scope="module")
def operations():
    return {one["operationId"]: one for item in CONTRACT["paths"].values() for one in item.values()}


def test_every_declared_link_is_in_the_document_and_fits_its_target(operations):
    for (source, status), links in LINKS.items():
        assert operations[source]["responses"][status]["links"] == links
        for target, link in links.items():
            names = {one["name"] for one in operations[target]["parameters"]}
            assert link["parameters"], (source, target)
            assert link["parameters"].keys() <= names, (source, target)


def test_idempotency_keys_have_one_form_in_all_operations(operations):
    forms = [
        (one["schema"]["pattern"], one["schema"]["minLength"], one["schema"]["maxLength"])
        for operation in operations.values()
        for one in operation.get("parameters", ())
        if one["name"] == "Idempotency-Key"
    ]
    assert len(forms) > 2
    assert set(forms) == {("^[!#-~][!-~]*$", 1, 255)}


def test_an_operation_that_reads_no_input_documents_no_error_of_it(operations):
    assert "422" not in operations["metrics"]["responses"]
    assert "413" not in operations["refreshProvider"]["responses"]
