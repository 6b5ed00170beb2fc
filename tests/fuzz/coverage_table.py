"""Which operation was reached with which status, how often, and what is missing.

Each process of a run appends lines to files of one folder; the table is made of all of them.
"""

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.fuzz.contract import ContractOperation

FOLDER_VARIABLE = "FUZZ_COVERAGE_FOLDER"
"""The environment variable with the folder of a run's recordings."""


class Reached(NamedTuple):
    """One response: the operation, its status, and the source of the request (`schemathesis`, ...)."""

    operation_id: str
    status: int
    source: str


class CoverageRecorder:
    """Appends each response to a file of this process."""

    def __init__(self, folder: Path, source: str) -> None:
        self.source = source
        self._path = folder / f"{source}-{os.getpid()}.jsonl"

    def record(self, operation_id: str, status: int) -> None:
        """Record that an operation responded with a status."""
        with self._path.open("a") as file:
            file.write(json.dumps([operation_id, status, self.source]) + "\n")


def recorded(folder: Path) -> list[Reached]:
    """Return all responses that processes have recorded in a folder."""
    lines = (line for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines())
    return [Reached(*json.loads(line)) for line in lines]


class CoverageTable:
    """The number of responses by operation and status."""

    def __init__(self, operations: Mapping[str, ContractOperation], responses: Iterable[Reached]) -> None:
        self._operations = operations
        self.counts = Counter((one.operation_id, one.status) for one in responses)

    def gaps(self) -> list[str]:
        """Return what is missing: operations without a 2xx, and documented 3xx and 4xx with a count of 0."""
        missing = []
        for operation in self._operations.values():
            if not any(self._reached_success(operation.id)):
                missing.append(f"{operation.id}: no 2xx")
            missing += [
                f"{operation.id}: {status} is documented, but was never the response"
                for status in operation.required_statuses
                if not self.counts[operation.id, int(status)]
            ]
        return missing

    def undocumented(self) -> list[str]:
        """Return the operations with a response whose status is not documented."""
        return [
            f"{operation_id}: {status} is not documented"
            for operation_id, status in sorted(self.counts)
            if not self._operations[operation_id].documents(status)
        ]

    def rendered(self) -> str:
        """Return the table: a row for each operation, with the count of each documented status.

        5xx and the several kinds of 2xx are shown where they were reached; nothing requires them.
        """
        width = max(map(len, self._operations))
        return "\n".join(
            f"{operation.id:{width}}  {self._row(operation)}" for operation in self._operations.values()
        )

    def _row(self, operation: ContractOperation) -> str:
        statuses = {int(status) for status in operation.required_statuses}
        statuses |= {status for operation_id, status in self.counts if operation_id == operation.id}
        return "  ".join(f"{status}:{self.counts[operation.id, status]}" for status in sorted(statuses))

    def _reached_success(self, operation_id: str) -> Iterable[bool]:
        return (found == operation_id and 200 <= status < 300 for found, status in self.counts)
