"""Documents that are meant to hurt, sent to a running gateway: each is answered with a problem, nothing stays."""

import time

from tests.harness.gateway import RunningGateway
from tests.unit.openapi import hostile_documents
from tests.unit.openapi.test_hostile import REFUSED

# Two seconds are the aim; the rest is for a busy machine.
_LONGEST = 30.0


def test_every_one_is_answered_with_a_problem(gateway: RunningGateway) -> None:
    documents = REFUSED | hostile_documents.REFUSED
    # It is a UTCP manual.
    del documents["no OpenAPI at all"]
    assert len(documents) >= 120
    slowest = (0.0, "")
    with gateway.client() as client:
        for number, (title, make) in enumerate(documents.items()):
            files = {"file": (title, make(), "application/octet-stream")}
            began = time.perf_counter()
            answer = client.post(f"/providers?name=hostile-{number}", files=files)
            slowest = max(slowest, (time.perf_counter() - began, title))
            assert answer.status_code in (400, 413, 415, 422), (title, answer.status_code, answer.text[:300])
            assert answer.headers["content-type"] == "application/problem+json", title
        names = [one["name"] for one in client.get("/providers?limit=200").json()["items"]]
        assert not [name for name in names if name.startswith("hostile-")]
    assert slowest[0] < _LONGEST, slowest
