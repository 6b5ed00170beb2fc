"""UTCP's `cli`: a command's words and environment are the request, its standard output is the response."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import orjson

from app.core.errors import InvalidInput, UpstreamMalformed, UpstreamTimeout
from app.outbound.credential_rendering import is_secret
from app.outbound.framing import StreamEvent, parse_events
from app.protocols.base import (
    AdapterContext,
    Call,
    Discovered,
    Execution,
    GivesEvidence,
    PassesOwnSecrets,
    Result,
)
from app.protocols.cli.command_words import fill_words, option_words
from app.protocols.cli.compiling import CliTarget, Step, compile_cli
from app.protocols.cli.manifest_run import (
    EvidenceFolder,
    ManifestCommand,
    check_paths,
    command_text,
    injected,
    make_folder,
)
from app.protocols.cli.runs import Run
from app.protocols.shared.effects import UnknownEffects
from app.protocols.shared.programs import ProgramRules
from app.protocols.shared.results import BYTES, JSON, TEXT, body_result, time_limit
from app.protocols.shared.sealed_fields import field_values
from app.security.masking import MASK

_LINES = "application/x-ndjson"


class CliAdapter(UnknownEffects, PassesOwnSecrets, GivesEvidence):
    """The adapter that runs programs of the operator's list PROGRAMS."""

    name: ClassVar[str] = "cli"

    def __init__(self, context: AdapterContext) -> None:
        self._masker = context.masker
        self._rules = ProgramRules(context.settings)
        self._slots = asyncio.Semaphore(context.settings.program_concurrency)
        self._runs: set[Run] = set()

    def prepare(self, template: Mapping[str, Any]) -> CliTarget:
        """Compile a template of `call_template_type` cli; raise InvalidInput."""
        return compile_cli(template, self._rules)

    def origin(self, target: CliTarget) -> str:
        """Return `cli://` and the programs as the template names them."""
        return target.origin

    def own_secrets(self, target: CliTarget) -> tuple[str, ...]:
        """Return the values of inherited variables that are secrets according to their names and values."""
        inherited = target.inherited & target.environment.keys()
        return tuple(
            target.environment[name] for name in inherited if is_secret(name, target.environment[name])
        )

    def method(self, target: CliTarget) -> str:  # noqa: ARG002 - the contract's.
        """Return `run`."""
        return "run"

    async def call(self, call: Call[CliTarget]) -> Result:
        """Run the commands, one after the other, and return their output: JSON where it is, else text.

        Where the call takes events, each line of output is an event. Raise what `Run.pieces` raises, and
        UpstreamTimeout.
        """
        if call.target.manifest is not None:
            return await self._call_manifest(call, call.target.manifest)
        run = await self._start_run(call)
        if call.stream_deadline is not None:
            return await _stream(run, call)
        output = (await _collect(run, call)).strip()
        if output.startswith((b"{", b"[")):
            try:
                orjson.loads(output)
            except orjson.JSONDecodeError:
                pass
            else:
                return body_result(output, JSON, call)
        return body_result(output.decode("utf-8", "replace").encode(), TEXT, call)

    async def _call_manifest(self, call: Call[CliTarget], manifest: ManifestCommand) -> Result:
        """Run the command of a ToolClad manifest and return its output as it is; raise what `call` raises."""
        check_paths(manifest, call.arguments, self._rules)
        folder = await asyncio.to_thread(make_folder, manifest, call.call_id, self._rules)
        run: Run | None = None
        try:
            run = await self._start_run(replace(call, target=manifest_target(call, manifest, folder)))
            output = await _collect(run, call)
            if folder is not None:
                written = await asyncio.to_thread(folder.read_output, call.limits.response_bytes)
                output = output if written is None else written
            parsed = None
            if manifest.parser is not None and folder is not None:
                parsed = await self._parsed(call, manifest, folder, output)
            result = body_result(output, BYTES, call)
            result.execution = Execution(0, run.stderr_text(), parsed)
            return result
        finally:
            if folder is not None:
                if run is not None:
                    # A program that is still being killed could write into the folder.
                    await run.wait_ended()
                await asyncio.to_thread(folder.remove)

    async def _parsed(
        self, call: Call[CliTarget], manifest: ManifestCommand, folder: EvidenceFolder, output: bytes
    ) -> Any:
        """Return what the program that parses the output prints, as a JSON value; raise UpstreamMalformed."""
        await asyncio.to_thread(folder.write_output, output, self._rules)
        words = ((folder.output,),)
        step = Step(manifest.parser or "", words, is_shown=True, is_referenced=False)
        target = replace(call.target, steps=(step,))
        printed = await _collect(await self._start_run(replace(call, target=target)), call)
        try:
            return orjson.loads(printed)
        except orjson.JSONDecodeError:
            raise UpstreamMalformed("The program that parses the output printed no JSON.") from None

    def evidence(self, call: Call[CliTarget]) -> dict[str, Any]:
        """Return the words of the command as one text."""
        manifest = call.target.manifest
        if manifest is None:
            return {"command": call.target.origin}
        return {"command": command_text(manifest, call)}

    async def discover(self, call: Call[CliTarget]) -> Discovered:
        """Return the output of the commands, which is to be a manual; raise what `call` raises."""
        run = await self._start_run(call)
        raw = await _collect(run, call)
        return Discovered(raw=raw.strip(), media_type="", url=call.target.origin)

    def describe(self, call: Call[CliTarget]) -> dict[str, Any]:
        """Return the words of each command, the environment with secrets masked, and the folder."""
        target = call.target
        if target.manifest is not None:
            target = manifest_target(call, target.manifest, None)
        sealed = _sealed(call, masked=True)
        environment = {
            name: MASK if name in target.inherited else sealed.get(name, value)
            for name, value in target.environment.items()
        }
        return {
            "method": "RUN",
            "url": target.origin,
            "headers": {},
            "body": {
                "commands": [
                    [step.program, *fill_words(step.words, call.arguments, {}), *_options(call)]
                    for step in target.steps
                ],
                "environment": environment,
                "working_dir": target.folder,
            },
        }

    async def aclose(self) -> None:
        """Kill all programs and wait for their end."""
        runs = list(self._runs)
        for run in runs:
            run.close()
        await asyncio.gather(*(run.wait_ended() for run in runs))

    async def _start_run(self, call: Call[CliTarget]) -> Run:
        """Return a run, as soon as fewer than PROGRAM_CONCURRENCY are in progress.

        Raise InvalidArguments, and UpstreamTimeout where none of them ends before the call's deadline.
        """
        target = call.target
        for value in (target.environment[name] for name in target.inherited & target.environment.keys()):
            self._masker.add(value)
        environment = {**target.environment, **_sealed(call)}
        for step in target.steps:
            fill_words(step.words, call.arguments, {})
        extra_words = _options(call)
        try:
            with time_limit(call.deadline):
                await self._slots.acquire()
        except UpstreamTimeout:
            detail = "The maximum number of programs is running, and none ended in time."
            raise UpstreamTimeout(detail, request_sent=False) from None
        run = Run(
            call, environment, extra_words, rules=self._rules, masker=self._masker, on_end=self._release
        )
        self._runs.add(run)
        return run

    def _release(self, run: Run) -> None:
        if run in self._runs:
            self._runs.discard(run)
            self._slots.release()


def manifest_target(
    call: Call[CliTarget], manifest: ManifestCommand, folder: EvidenceFolder | None
) -> CliTarget:
    """Return the target of one call of a manifest: its words, which are literal, and its environment.

    Raise InvalidArguments for arguments that cannot be words.
    """
    values = injected(manifest, call.call_id, folder)
    words = manifest.command.arguments(call.arguments, values)
    step = Step(manifest.program, tuple((word,) for word in words), is_shown=True, is_referenced=False)
    environment = manifest.command.environment(call.arguments, values)
    return replace(call.target, steps=(step,), environment=environment)


async def _collect(run: Run, call: Call[CliTarget]) -> bytes:
    try:
        with time_limit(call.deadline, "The program did not end in its time."):
            return b"".join([piece async for piece in run.pieces()])
    finally:
        run.close()


async def _stream(run: Run, call: Call[CliTarget]) -> Result:
    """Return a result with events, at the first output or the end."""
    pieces = run.pieces()
    try:
        with time_limit(call.deadline, "The program wrote nothing in its time."):
            first = await anext(pieces, b"")
    except BaseException:
        run.close()
        raise
    events = _events(_bounded(first, pieces, call), run, call)
    result = Result(status=200, headers=[], media_type=TEXT, body=None, events=events)
    result.close_with(run.close)
    return result


async def _events(
    pieces: AsyncGenerator[bytes, None], run: Run, call: Call[CliTarget]
) -> AsyncGenerator[StreamEvent, None]:
    try:
        async for event in parse_events(pieces, _LINES, max_bytes=call.limits.event_bytes):
            yield event
    finally:
        run.close()
        await pieces.aclose()


async def _bounded(
    first: bytes, pieces: AsyncGenerator[bytes, None], call: Call[CliTarget]
) -> AsyncGenerator[bytes, None]:
    loop = asyncio.get_running_loop()
    piece = first
    try:
        while piece:
            yield piece
            deadline = min(call.stream_deadline or call.deadline, loop.time() + call.limits.idle)
            with time_limit(deadline, "The program was silent for too long, or did not end in its time."):
                piece = await anext(pieces, b"")
    finally:
        await pieces.aclose()


def _sealed(call: Call[CliTarget], *, masked: bool = False) -> dict[str, str]:
    """Return the sealed environment variables; raise InvalidInput for a credential of another location."""
    values = field_values(call.credentials, masked=masked)
    for wire in call.credentials:
        if wire.location != "field" or not wire.name.startswith("/env_vars/"):
            raise InvalidInput(
                f"A program takes credentials by env_vars only, not as a {wire.location}: remove the "
                f"credential {wire.slot!r}, and pass its value by a variable."
            )
    prefix = len("/env_vars/")
    return {at[prefix:].replace("~1", "/").replace("~0", "~"): value for at, value in values.items()}


def _options(call: Call[CliTarget]) -> list[str]:
    return list(option_words(call.arguments)) if call.target.options else []
