"""Runs agent tests in the background, and stores the state and the results of each in a row.

The worker that runs one writes a heartbeat into its row every few seconds, with its progress, and reads
whether it is to be cancelled. Where the heartbeat is missing for longer, the worker has ended, and the test
has failed.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, Final
from uuid import UUID

import orjson
import structlog
from sqlalchemy import delete, update
from sqlmodel import col

from app.agents.tests.conversation import RunContext, run_case
from app.agents.tests.definition import AgentTestRequest, PlannedCase, planned_cases
from app.agents.tests.exchange import ModelExchange
from app.agents.tests.models import ConfiguredProviders, ModelTarget
from app.agents.tests.offered_tools import OfferedTools, offered_tools
from app.agents.tests.results import ResultMasking, ResultWriter, TestResult, TestRun
from app.core import exact_json
from app.core.errors import (
    FieldError,
    Forbidden,
    GatewayError,
    InvalidInput,
    NotFound,
    Overloaded,
    Stopping,
    TooLarge,
    Unauthenticated,
    Unavailable,
    scopes_missing,
)
from app.core.telemetry.unexpected import log_unexpected_error
from app.core.uuid7 import uuid7
from app.security.lasting_rights import run_while_permitted, when_changed
from app.security.principal import Principal
from app.services import Services
from app.storage.models import AgentTestRow, now

SCOPE: Final = "agent-tests:run"
"""The scope that a key needs to run agent tests."""
HEARTBEAT_SECONDS: Final = 2.0
HEARTBEAT_TIMEOUT_SECONDS: Final = 60.0
_BUSY_RETRY_AFTER: Final = 10
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class TestHeaders:
    """What of the headers of a request its calls continue: the gateways that it has passed, and its trace."""

    __test__ = False

    cdn_loop: bytes = b""
    trace: Mapping[bytes, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class _Case:
    """A case, and its conversations by model and repetition; None: one that has not ended."""

    case: PlannedCase
    targets: Sequence[ModelTarget]
    offered: OfferedTools
    runs: list[list[TestRun | None]]


@dataclass(slots=True)
class _RunningTest:
    """A test that this worker runs."""

    writer: ResultWriter
    cases: list[_Case]
    total: int
    principal: Principal
    position: int
    """That of the change feed when the test began."""
    done: int = 0
    is_cancelled: bool = False
    is_ending: bool = False
    """Whether its results are being stored, which is not to be interrupted."""
    task: asyncio.Task[None] | None = None


@dataclass(frozen=True, slots=True)
class StoredTest:
    """A test as it is stored; `results` are those of its cases as JSON, None while it runs."""

    row: AgentTestRow
    results: list[dict[str, Any]] | None = field(default=None, repr=False)


class AgentTestRuns:
    """Starts agent tests, and returns their state; one instance per worker."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._providers = ConfiguredProviders(services.settings)
        for key in self._providers.secrets():
            services.masker.add(key)
        self._running: dict[UUID, _RunningTest] = {}

    async def start(
        self, request: AgentTestRequest, *, principal: Principal, headers: TestHeaders
    ) -> AgentTestRow:
        """Run a test in the background, and return its row.

        Raise InvalidInput for models that cannot be asked, TooLarge for too many conversations, Forbidden for
        a key that may not call the tools, and Overloaded where this worker runs too many tests.
        """
        settings = self._services.settings
        planned = [(case, self._targets(case)) for case in planned_cases(request)]
        total = sum(len(targets) * case.repeat for case, targets in planned)
        if total > settings.agent_test_max_runs:
            raise TooLarge(
                f"The test has {total} conversations (cases by models by repetitions); at most "
                f"{settings.agent_test_max_runs} are allowed.",
                extra={"limit": settings.agent_test_max_runs},
            )
        gives_tools = any(case.plugins or case.toolsets or case.tools for case, _ in planned)
        _require_test_rights(principal, gives_tools=gives_tools)
        if len(self._running) >= settings.agent_test_max_running:
            raise Overloaded(
                f"This worker runs {len(self._running)} agent tests already.", retry_after=_BUSY_RETRY_AFTER
            )
        test_id = uuid7()
        test = _RunningTest(
            self._writer(request, planned), [], total, principal, self._services.feed.position
        )
        # Before anything is awaited, so that the limit holds.
        self._running[test_id] = test
        try:
            for case, targets in planned:
                offered = await offered_tools(case, self._services.collections, principal)
                runs: list[list[TestRun | None]] = [[None] * case.repeat for _ in targets]
                test.cases.append(_Case(case, targets, offered, runs))
            row = AgentTestRow(
                id=test_id,
                tenant_id=principal.tenant_id,
                key_id=principal.key_id,
                name=test.writer.masking.text(request.name or ""),
                total=total,
            )
            await self._insert(row)
        except BaseException:
            del self._running[test_id]
            raise
        test.task = asyncio.create_task(self._run(test_id, test, headers), name="agent-test")
        return row

    async def wait(self, test_id: UUID) -> None:
        """Wait until a test has ended that this worker runs."""
        test = self._running.get(test_id)
        if test is not None and test.task is not None:
            await asyncio.wait([test.task])

    async def get(self, test_id: UUID, *, principal: Principal) -> StoredTest:
        """Return a test that this API key started, or any one for an admin without limits.

        Raise NotFound. A test without a heartbeat is marked as failed.
        """
        row = await self._row(test_id)
        is_own = row is not None and row.key_id == principal.key_id
        if row is None or not (is_own or (not principal.is_restricted and principal.has_scope("admin"))):
            raise NotFound(f"There is no agent test {test_id}.")
        if row.state == "running" and row.beat_at < now() - timedelta(seconds=HEARTBEAT_TIMEOUT_SECONDS):
            died = Unavailable("The worker that ran this test has ended. Run it again.")
            await self._finish(test_id, "failed", row.done, problem=died.as_problem())
            row = await self._row(test_id) or row
        running = self._running.get(test_id)
        if row.state == "running" and running is not None:
            row.done = running.done
        results = None
        if row.sealed_result is not None:
            opened = self._services.vault.open(row.sealed_result, context=_context(test_id))
            results = await asyncio.to_thread(orjson.loads, opened)
        return StoredTest(row, results)

    async def cancel(self, test_id: UUID, *, principal: Principal) -> StoredTest:
        """Cancel a test, and return it: its results are those of what has ended. Raise NotFound.

        One that another worker runs ends within a few seconds; one that has ended stays as it is.
        """
        stored = await self.get(test_id, principal=principal)
        if stored.row.state != "running":
            return stored
        test = self._running.get(test_id)
        if test is None:
            async with self._services.database.transaction() as session:
                await session.execute(
                    update(AgentTestRow).where(*_still_running(test_id)).values(cancel_requested=True)
                )
        else:
            _cancel(test)
            await self.wait(test_id)
        return await self.get(test_id, principal=principal)

    async def aclose(self) -> None:
        """End the tests that run: they have failed."""
        tests = [test for test in self._running.values() if test.task is not None]
        tasks = [test.task for test in tests if test.task is not None]
        for test in tests:
            _interrupt(test)
        await asyncio.gather(*tasks, return_exceptions=True)

    def _targets(self, case: PlannedCase) -> list[ModelTarget]:
        if not case.models:
            error = FieldError("/models", "Give at least one model.")
            raise InvalidInput(f"The case {case.name} has no model.", errors=[error])
        found = [self._providers.target(model, at=at) for at, model in case.models]
        errors = [one for one in found if isinstance(one, FieldError)]
        if errors:
            raise InvalidInput(errors[0].detail, errors=errors)
        targets = [one for one in found if isinstance(one, ModelTarget)]
        labels = [target.label for target in targets]
        for (at, _), target in zip(case.models, targets, strict=True):
            if labels.count(target.label) > 1:
                error = FieldError(at, f"Two models are called {target.label}: give one of them a `name`.")
                raise InvalidInput(error.detail, errors=[error])
        return targets

    def _writer(
        self, request: AgentTestRequest, planned: Sequence[tuple[PlannedCase, Sequence[ModelTarget]]]
    ) -> ResultWriter:
        keys = {
            target.api_key.reveal()
            for _, targets in planned
            for target in targets
            if target.api_key is not None
        }
        masking = ResultMasking(self._services.masker, tuple(sorted(keys, key=len, reverse=True)))
        return ResultWriter(masking, request.prices, request.currency)

    async def _insert(self, row: AgentTestRow) -> None:
        retention = timedelta(days=self._services.settings.agent_test_retention_days)
        async with self._services.database.transaction() as session:
            await session.execute(
                delete(AgentTestRow).where(col(AgentTestRow.created_at) < now() - retention)
            )
            session.add(row)

    async def _row(self, test_id: UUID) -> AgentTestRow | None:
        async with self._services.database.read_session() as session:
            return await session.get(AgentTestRow, test_id)

    async def _run(self, test_id: UUID, test: _RunningTest, headers: TestHeaders) -> None:
        heartbeat = asyncio.create_task(self._beat(test_id, test))
        state, problem = "done", None
        try:
            services = self._services
            check = when_changed(
                partial(services.keys.renew, test.principal),
                lambda: services.feed.position,
                partial(self._check_rights, test),
                began_with=(test.principal, test.position),
            )
            await run_while_permitted(self._run_all(test, headers), check)
        except (Unauthenticated, Forbidden) as error:
            state, problem = "cancelled", error.as_problem()
        except asyncio.CancelledError:
            state = "cancelled" if test.is_cancelled else "failed"
            if not test.is_cancelled:
                problem = Stopping("The worker that ran this test has stopped. Run it again.").as_problem()
        except Exception as error:  # noqa: BLE001 - a background task: whatever it was, the row must say so.
            state, problem = "failed", log_unexpected_error(error).as_problem()
        finally:
            heartbeat.cancel()
            await asyncio.gather(heartbeat, return_exceptions=True)
        test.is_ending = True
        try:
            with contextlib.suppress(Unavailable):
                content = await asyncio.to_thread(_content, test)
                await self._finish(test_id, state, test.done, content=content, problem=problem)
        finally:
            self._running.pop(test_id, None)

    async def _check_rights(self, test: _RunningTest, principal: Principal) -> None:
        """Raise Forbidden where the key of a test may no longer run it, or may no longer call a tool that its
        models were given.
        """
        _require_test_rights(principal, gives_tools=any(one.offered.names for one in test.cases))
        for case in test.cases:
            offered = await offered_tools(case.case, self._services.collections, principal)
            lost = case.offered.names - offered.names
            if lost:
                raise Forbidden(f"The API key may no longer call the tool {min(lost)}, which the test gives.")

    async def _run_all(self, test: _RunningTest, headers: TestHeaders) -> None:
        services = self._services
        settings = services.settings
        context = RunContext(
            services,
            ModelExchange(services.engine, settings.max_argument_values),
            asyncio.get_running_loop().time() + settings.agent_test_seconds,
            headers.cdn_loop,
            headers.trace,
        )
        slots = asyncio.Semaphore(settings.agent_test_parallel)

        async def run(case: _Case, model: int, repetition: int) -> None:
            async with slots:
                case.runs[model][repetition] = await self._run_one(test, case, model, context)
                test.done += 1

        async with asyncio.TaskGroup() as group:
            for case in test.cases:
                for model in range(len(case.targets)):
                    for repetition in range(case.case.repeat):
                        group.create_task(run(case, model, repetition))

    async def _run_one(self, test: _RunningTest, case: _Case, model: int, context: RunContext) -> TestRun:
        target, writer = case.targets[model], test.writer
        try:
            outcome = await run_case(case.case, target, case.offered, context)
            return await asyncio.to_thread(writer.run, outcome, case.case, target, case.offered)
        except GatewayError as error:
            return writer.failed_run(error.detail)
        except Exception as error:  # noqa: BLE001 - one conversation must not end the others.
            return writer.failed_run(log_unexpected_error(error).detail)

    async def _beat(self, test_id: UUID, test: _RunningTest) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            with contextlib.suppress(Unavailable):
                async with self._services.database.transaction() as session:
                    found = await session.execute(
                        update(AgentTestRow)
                        .where(*_still_running(test_id))
                        .values(beat_at=now(), done=test.done)
                        .returning(col(AgentTestRow.cancel_requested))
                    )
                    cancel_requested = found.scalar_one_or_none()
                # None: another worker has marked a test as failed whose heartbeats were late.
                if cancel_requested is not False:
                    _cancel(test)
                    return

    async def _finish(
        self,
        test_id: UUID,
        state: str,
        done: int,
        *,
        content: bytes | None = None,
        problem: dict[str, Any] | None = None,
    ) -> None:
        sealed = None if content is None else self._services.vault.seal(content, context=_context(test_id))
        values = {
            "state": state,
            "done": done,
            "sealed_result": sealed,
            "problem": problem,
            "finished_at": now(),
        }
        async with self._services.database.transaction() as session:
            await session.execute(update(AgentTestRow).where(*_still_running(test_id)).values(**values))


@asynccontextmanager
async def open_runs(services: Services) -> AsyncIterator[AgentTestRuns]:
    """Yield the agent tests of a worker; at the end of the block, end those that run."""
    runs = AgentTestRuns(services)
    try:
        yield runs
    finally:
        await runs.aclose()


def _cancel(test: _RunningTest) -> None:
    test.is_cancelled = True
    _interrupt(test)


def _interrupt(test: _RunningTest) -> None:
    if test.task is not None and not test.is_ending:
        test.task.cancel()


def _require_test_rights(principal: Principal, *, gives_tools: bool) -> None:
    """Raise Forbidden where the key may not run agent tests, or may not call the tools that they give."""
    if not principal.has_scope(SCOPE):
        raise scopes_missing(f"The API key lacks the scope `{SCOPE}`.", [SCOPE])
    if gives_tools and not principal.has_scope("tools:call"):
        raise scopes_missing(
            "The test gives tools to its models, and the API key lacks the scope `tools:call`.",
            ["tools:call"],
        )


def _content(test: _RunningTest) -> bytes:
    """Return the results of a test as JSON: of each case with each model that has ended at least once."""
    results: list[TestResult] = []
    for case in test.cases:
        for target, runs in zip(case.targets, case.runs, strict=True):
            ended = [run for run in runs if run is not None]
            if ended:
                results.append(test.writer.result(case.case, target, ended, case.offered.warnings))
    return exact_json.dumps(
        [result.model_dump(mode="json", by_alias=True, exclude_none=True) for result in results]
    )


def _context(test_id: UUID) -> tuple[str, ...]:
    return ("agent-test", str(test_id))


def _still_running(test_id: UUID) -> tuple[Any, ...]:
    return (col(AgentTestRow.id) == test_id, col(AgentTestRow.state) == "running")
