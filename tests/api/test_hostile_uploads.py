"""Hostile documents, sent to a running gateway: each gets a problem as its response, nothing is stored.

The converter is given all of them in tests/unit/openapi/test_hostile.py, within time limits.
"""

from tests.harness.gateway import RunningGateway
from tests.unit.openapi import hostile_documents
from tests.unit.openapi.test_hostile import REFUSED

EVERY = 6
"""One of so many is sent."""


def test_a_hostile_document_is_rejected_with_a_problem(gateway: RunningGateway) -> None:
    documents = REFUSED | hostile_documents.REFUSED
    # It is a UTCP manual.
    del documents["no OpenAPI at all"]
    with gateway.client() as client:
        for number, (title, make) in enumerate(list(documents.items())[::EVERY]):
            files = {"file": (title, make(), "application/octet-stream")}
            response = client.post(f"/providers?name=hostile-{number}", files=files)
            assert response.status_code in (400, 413, 415, 422), (
                title,
                response.status_code,
                response.text[:300],
            )
            assert response.headers["content-type"] == "application/problem+json", title
        names = [one["name"] for one in client.get("/providers?limit=200").json()["items"]]
        assert not [name for name in names if name.startswith("hostile-")]
