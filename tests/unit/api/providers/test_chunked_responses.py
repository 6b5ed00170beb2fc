"""Models of many operations are written in pieces, and yet as pydantic writes them."""

from datetime import UTC, datetime
from uuid import uuid4

from pydantic import BaseModel

from app.api.providers.responses import _CHUNK_ITEMS, json_of
from app.api.providers.schemas import ImportView, Preview
from app.api.providers.views import report_of
from app.openapi.assessment.lint import LintFinding
from app.openapi.report import OperationOutcome, SourceReport
from tests.harness.cases import for_each


def operation(number: int) -> OperationOutcome:
    findings = (LintFinding("r", "d", "s"),) if number % 3 == 0 else ()
    return OperationOutcome(
        source_key=f"GET /ä{number}", name=f'n"{number}', outcome="accepted", pointer="/paths/~1a",
        notes=("a note",), security=(("key",),), tokens=number, lint=findings,
    )  # fmt: skip


def preview(count: int) -> Preview:
    report = SourceReport(tuple(operation(number) for number in range(count)))
    tools = [
        {"name": f"p.n{n}", "source_key": "k", "description": "\x00ü", "method": "GET", "url": "https://a.example", "inputs": {"n": [n, 1.5, None]}, "security": [[]]}
        for n in range(count)
    ]  # fmt: skip
    keys = [f"GET /{n}" for n in range(count)]
    difference = {"added": keys, "changed": [], "unchanged": [], "removed": [], "pending_approval": [], "compatibility": "compatible", "operations": []}  # fmt: skip
    form = {"name": "p", "title": "", "description": "", "kind": "openapi", "protocol": "http", "exists": False, "origins": [],
            "slots": [], "tools": tools, "difference": difference, "needs_consent": [], "report": report_of(report)}  # fmt: skip
    return Preview.model_validate(form)


@for_each("count", [0, 1, _CHUNK_ITEMS, _CHUNK_ITEMS + 1, 3 * _CHUNK_ITEMS])
def test_model_in_pieces_is_what_pydantic_writes(count: int) -> None:
    model = preview(count)
    assert json_of(model) == model.model_dump_json().encode()


def test_times_and_ids_are_written_as_pydantic_writes_them() -> None:
    view = ImportView(
        id=uuid4(),
        state="done",
        status=200,
        result={"a": [*range(500)]},
        created_at=datetime.now(UTC),
        finished_at=None,
    )
    assert json_of(view) == view.model_dump_json().encode()


def test_model_without_fields_is_an_empty_object() -> None:
    class Empty(BaseModel):
        pass

    assert json_of(Empty()) == b"{}"
