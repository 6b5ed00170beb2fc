"""The exit codes of the commands, and the errors that lead to them."""

from enum import IntEnum
from typing import Any


class ExitCode(IntEnum):
    """The exit codes of every command, as `--help` lists them."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    PARTIAL = 4


EXIT_CODES_HELP = (
    "Exit codes: 0 done; 1 the gateway responded with an error, or an input is not valid; 2 the command line "
    "is wrong; 3 the gateway cannot be reached; 4 done in part, some entries failed."
)


class OperatorError(Exception):
    """An error of `serve`, `bootstrap` or `migrate` that the operator can correct; its text is a sentence."""


class CommandFailed(Exception):
    """Raised where a command fails; `problem` has the members of RFC 9457 and is safe to show.

    `hint` is a sentence on what to try, set by the command.
    """

    exit_code = ExitCode.FAILED
    hint = ""

    def __init__(self, problem: dict[str, Any]) -> None:
        super().__init__(str(problem.get("detail") or problem.get("title") or ""))
        self.problem = problem


class ProblemResponse(CommandFailed):
    """The gateway responded with problem details; `status` is the HTTP status."""

    def __init__(self, problem: dict[str, Any], *, status: int) -> None:
        super().__init__({**problem, "status": status})
        self.status = status

    @property
    def slug(self) -> str:
        """The stable last part of the problem's `type`."""
        return str(self.problem.get("type", "")).replace("/", ":").rsplit(":", 1)[-1]


class EnvelopeResponse(CommandFailed):
    """The call of a ToolClad tool failed; `envelope` is its evidence."""

    def __init__(self, envelope: bytes) -> None:
        super().__init__({"title": "The tool failed", "detail": "The envelope says how."})
        self.envelope = envelope


class GatewayUnreachable(CommandFailed):
    """No response came from the address, or none that a gateway sends."""

    exit_code = ExitCode.UNREACHABLE

    def __init__(self, detail: str) -> None:
        super().__init__({"title": "The gateway cannot be reached", "detail": detail})


class InputError(CommandFailed):
    """A file or a value on the command line cannot be used; nothing was sent."""

    exit_code = ExitCode.USAGE

    def __init__(self, detail: str) -> None:
        super().__init__({"title": "The input cannot be used", "detail": detail})
