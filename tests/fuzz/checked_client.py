"""Sends requests of operations, and checks what holds for each response to them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.fuzz.coverage_table import CoverageRecorder
from tests.fuzz.valid_requests import ContractRequest
from tests.harness.canaries import LeakSearch
from tests.harness.gateway import RunningGateway


@dataclass(frozen=True, slots=True)
class CheckedResponse:
    """The response to a request; `body` of an endless stream is empty."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """Return the parsed body."""
        return json.loads(self.body)


class CheckedClient:
    """Sends requests to a gateway and records their statuses.

    `findings` are sentences about responses that nobody may get: undocumented statuses, server errors, errors
    without problem details, and planted secrets.
    """

    def __init__(self, gateway: RunningGateway, recorder: CoverageRecorder, search: LeakSearch) -> None:
        self.findings: list[str] = []
        self._recorder = recorder
        self._search = search
        self._client = gateway.client(key="")
        self._admin_key = gateway.key

    def send(self, request: ContractRequest, *, key: str | None = None) -> CheckedResponse:
        """Send a request with the admin key, another key, or (empty string) none."""
        key = self._admin_key if key is None else key
        headers = {**request.headers, **({"Authorization": f"Bearer {key}"} if key else {})}
        operation = request.operation
        with self._client.stream(
            operation.method,
            request.url,
            params=request.query or None,
            headers=headers,
            content=request.content,
        ) as stream:
            # The streams of records do not end.
            is_endless = stream.headers.get("content-type", "").startswith("text/event-stream")
            body = b"" if is_endless else stream.read()
            response = CheckedResponse(stream.status_code, stream.headers, body)
        self._recorder.record(operation.id, response.status)
        self._check(request, response)
        return response

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _check(self, request: ContractRequest, response: CheckedResponse) -> None:
        operation = request.operation
        where = f"{operation.id} {request.url} {response.status}"
        self.findings += self._search.leaks_in_response(where, response.headers, response.body)
        if not operation.documents(response.status):
            self.findings.append(f"{where}: the status is not documented: {response.body[:300]!r}")
        if response.status < 400 or operation.method == "HEAD":
            return
        media_type = response.headers.get("content-type", "")
        if media_type == "application/json" and operation.documents_error_of(response.status, media_type):
            # An error of JSON-RPC, which has its own members.
            if not response.json()["error"].keys() >= {"code", "message"}:
                self.findings.append(f"{where}: the error has no code or message")
        elif media_type != "application/problem+json":
            self.findings.append(f"{where}: the error has no problem details")
        elif missing := {"type", "title", "status", "detail", "hint"} - response.json().keys():
            self.findings.append(f"{where}: the problem lacks {missing}")
        elif response.status >= 500 and response.json()["type"].endswith(":internal-error"):
            self.findings.append(f"{where}: an internal error")
