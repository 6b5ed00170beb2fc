"""Execution of one call of `cli`: its commands, one after the other, each a process of its own."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, Final

from app.core.errors import UpstreamErrorResponse, UpstreamMalformed, UpstreamRejected, UpstreamUnreachable
from app.outbound.error_bodies import sanitize_error_body
from app.protocols.base import Call
from app.protocols.cli.command_words import fill_words
from app.protocols.cli.compiling import CliTarget
from app.protocols.shared.programs import ProgramCommand, ProgramRules, RunningProgram, start_program
from app.protocols.shared.results import check_size
from app.security.masking import Masker

# More is retained than returned: a secret that is cut at the beginning could not be recognised.
_MAX_STDERR_BYTES: Final = 16 * 1024
_MAX_SHOWN_BYTES: Final = 8 * 1024


class Run:
    """The execution of a call's commands. `on_end` is called when it has ended or is closed."""

    def __init__(
        self,
        call: Call[CliTarget],
        environment: Mapping[str, str],
        options: Sequence[str],
        *,
        rules: ProgramRules,
        masker: Masker,
        on_end: Callable[["Run"], None],
    ) -> None:
        self._call = call
        self._environment = environment
        self._options = options
        self._rules = rules
        self._masker = masker
        self._on_end = on_end
        self._running: RunningProgram | None = None
        self._closed = False
        self.stderr = b""
        """The end of what the last program wrote to standard error."""

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """Run the commands and yield the output of those that are part of the response.

        Raise UpstreamRejected for an exit code other than 0, UpstreamMalformed for the end by a signal,
        UpstreamUnreachable where a program cannot be started, ResponseTooLarge and InvalidArguments.
        """
        target = self._call.target
        limit = self._call.limits.response_bytes
        outputs: dict[int, str] = {}
        size = 0
        open_line = False
        try:
            for number, step in enumerate(target.steps):
                words = [step.program, *fill_words(step.words, self._call.arguments, outputs), *self._options]
                running = await self._start(words, number)
                referenced_output, tail, fresh = bytearray(), b"", True
                while piece := await running.read():
                    size += len(piece)
                    check_size(size, limit)
                    tail = (tail + piece)[-_MAX_STDERR_BYTES:]
                    if step.is_referenced:
                        referenced_output += piece
                    if step.is_shown:
                        yield b"\n" + piece if fresh and open_line else piece
                        fresh, open_line = False, not piece.endswith(b"\n")
                await running.ended.wait()
                self.stderr = await running.final_tail() if self._call.target.manifest else b""
                self._check(running, tail, first=number == 0)
                outputs[number] = referenced_output.decode("utf-8", "replace").rstrip("\n")
        finally:
            self.close()

    def close(self) -> None:
        """Kill the running program. Idempotent."""
        self._closed = True
        if self._running is not None:
            self._running.kill()
        self._on_end(self)

    async def wait_ended(self) -> None:
        """Wait until the program has ended."""
        if self._running is not None:
            await self._running.ended.wait()

    async def _start(self, words: Sequence[str], number: int) -> RunningProgram:
        target = self._call.target
        try:
            command = ProgramCommand(
                argv=words,
                environment=self._environment,
                folder=self._rules.resolved(target.folder),
                cpu_seconds=self._rules.settings.program_cpu_seconds,
            )
            running = self._running = await start_program(command, self._rules)
        except UpstreamUnreachable as error:
            error.request_sent = number > 0
            raise
        if self._closed:
            running.kill()
        return running

    def _check(self, running: RunningProgram, output: bytes, *, first: bool) -> None:
        """Raise the error for an unsuccessful end of a program, with the ends of its output in it."""
        if running.failure is not None:
            detail = f"The program could not be started: {running.failure}."
            raise UpstreamUnreachable(detail, request_sent=not first)
        code = running.exit_code
        if code == 0:
            return
        body: dict[str, Any] = {
            "exit_code": code,
            "stderr": self._tail(running.tail),
            "stdout": self._tail(output),
        }
        if code is None or code < 0:
            detail = f"The program was ended by signal {-(code or 0)}; one of its limits may be the cause."
            raise UpstreamMalformed(detail, response=UpstreamErrorResponse(status=500, body=body))
        error_response = UpstreamErrorResponse(status=422, body=body)
        raise UpstreamRejected(f"The program ended with exit code {code}.", response=error_response)

    def stderr_text(self) -> str:
        """Return the end of standard error as text, known secrets masked."""
        text = self._tail(self.stderr)
        return text if isinstance(text, str) else ""

    def _tail(self, raw: bytes) -> Any:
        text = sanitize_error_body(
            raw, "text/plain", masker=self._masker, limit=_MAX_STDERR_BYTES, complete=True
        )
        return text[-_MAX_SHOWN_BYTES:] if isinstance(text, str) else text
