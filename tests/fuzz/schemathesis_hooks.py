"""What schemathesis does beside its own checks: it records each response, and searches it for planted secrets.

schemathesis imports this module by SCHEMATHESIS_HOOKS, in a process of its own.
"""

import json
import os
import re
from pathlib import Path
from typing import Any

import schemathesis
from schemathesis.checks import load_all_checks
from schemathesis.core.failures import Failure
from schemathesis.specs.openapi.checks import positive_data_acceptance

from tests.fuzz.coverage_table import FOLDER_VARIABLE, CoverageRecorder
from tests.fuzz.schemathesis_run import DOCUMENT_VARIABLE, NEEDLES_VARIABLE, SOURCE_VARIABLE
from tests.harness.canaries import LeakSearch

_ONLY_THE_SERVER_CAN_KNOW = {"invalid-input": {"#/query/cursor"}, "idempotency-mismatch": set()}
"""Problems of valid requests, by slug, with the pointers of all their errors: a cursor is opaque, and an
Idempotency-Key may have been used before."""

_recorder = CoverageRecorder(Path(os.environ[FOLDER_VARIABLE]), os.environ[SOURCE_VARIABLE])
_search = LeakSearch(json.loads(Path(os.environ[NEEDLES_VARIABLE]).read_bytes()))
load_all_checks()


class SecretLeaked(Failure):
    """A response contains a planted secret."""

    def __init__(self, *, operation: str, message: str) -> None:
        super().__init__(operation=operation, title="A planted secret is in the response", message=message)


@schemathesis.hook
def before_load_schema(context: Any, raw_schema: dict[str, Any]) -> None:
    """Let the examples of documents name one that is served, so that registrations of it succeed."""
    served = os.environ[DOCUMENT_VARIABLE]
    replaced = json.loads(
        re.sub(r"http://127\.0\.0\.1:800[12]/openapi\.json", served, json.dumps(raw_schema))
    )
    raw_schema.update(replaced)


@schemathesis.hook
def map_body(context: Any, body: Any) -> Any:
    """Let generated registrations name the document that is served."""
    operation = context.operation.definition.raw["operationId"]
    if operation not in {"registerProvider", "previewProvider"} or not isinstance(body, dict):
        return body
    source = body.get("source")
    for holder in (body, source):
        if isinstance(holder, dict) and str(holder.get("url")).startswith(("http://", "https://")):
            holder["url"] = os.environ[DOCUMENT_VARIABLE]
    return body


@schemathesis.hook
def after_call(context: Any, case: Any, response: Any) -> None:
    """Record the status of the operation; requests with another method than the operation's are of none."""
    if case.method.upper() == case.operation.method.upper():
        _recorder.record(case.operation.definition.raw["operationId"], response.status_code)


@schemathesis.check
def secrets_stay_inside(ctx: Any, response: Any, case: Any) -> bool | None:
    """No response contains a planted secret, in any spelling."""
    leaks = _search.leaks_in_response(case.operation.label, response.headers, response.content)
    if leaks:
        raise SecretLeaked(operation=case.operation.label, message="\n".join(leaks))
    return None


@schemathesis.check
def valid_request_is_accepted(ctx: Any, response: Any, case: Any) -> bool | None:
    """As `positive_data_acceptance`, but for what no schema can say."""
    if response.status_code == 422 and _is_known_to_the_server_only(response.json()):
        return None
    result: bool | None = positive_data_acceptance(ctx, response, case)
    return result


def _is_known_to_the_server_only(problem: dict[str, Any]) -> bool:
    pointers = _ONLY_THE_SERVER_CAN_KNOW.get(problem["type"].rpartition(":")[2])
    return pointers is not None and {one["pointer"] for one in problem.get("errors", ())} == pointers
