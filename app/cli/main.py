"""The entry point `utcp-gateway`. It imports nothing that takes time, so that Ctrl-C is handled at once.

While commands are imported, Ctrl-C ends the process by its signal, as it ends a program in C. While one runs,
it is a KeyboardInterrupt, so that the command can restore the terminal and close its connections. Whatever
happens, standard error gets a sentence and no traceback; UTCP_GATEWAY_TRACEBACK=1 shows the one of an error
that no command expected.
"""

import errno
import os
import signal
import sys

#: Exit codes of shells for a program that a signal ended, and of sysexits.h for an internal error.
INTERRUPTED = 128 + signal.SIGINT
INTERNAL_ERROR = 70

_BROKEN_PIPE = 1
_USAGE = 2


def main() -> None:
    """Run `utcp-gateway`, the installed command; exit with its code."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _open_missing_streams()
    code = _run()
    # From here on there is nothing to clean up: what the interpreter does at its end cannot fail visibly.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    code = _flush(code)
    _end_soon(code)
    sys.exit(code)


def _run() -> int:
    """Run the command line and return its exit code; show every error as a sentence."""
    if any("\udc80" <= char <= "\udcff" for word in sys.argv for char in word):
        _write_error("Error: the command line has bytes that are not UTF-8.")
        return _USAGE
    try:
        from app.cli.root import app
        from app.security.core_dumps import disable_core_dumps

        # Every command has an API key in its memory, or all secrets of the gateway.
        disable_core_dumps()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        app()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except KeyboardInterrupt:
        _write_error("Interrupted.")
        return INTERRUPTED
    except OSError as error:
        if error.errno == errno.EPIPE:
            return _BROKEN_PIPE
        where = "standard output cannot be written" if error.filename is None else f"{error.filename}"
        _write_error(f"Error: {where}: {error.strerror or type(error).__name__}.")
        return 1
    except Exception as error:  # noqa: BLE001 - the last resort: a traceback helps nobody at a terminal.
        if _is_interrupt(error):
            _write_error("Interrupted.")
            return INTERRUPTED
        return _report_internal_error(error)
    return 0


def _end_soon(code: int) -> None:
    """End the process also where a thread still runs, for which the interpreter would wait."""
    # Only a command that has started threads has loaded this module.
    if "app.cli.work_threads" in sys.modules:
        from app.cli.work_threads import EXIT_SECONDS, end_within

        end_within(EXIT_SECONDS, code)


def _is_interrupt(error: BaseException) -> bool:
    """Return whether an error was raised because of a KeyboardInterrupt: Python raises RuntimeError from one
    in `__set_name__` while a class is created.
    """
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__cause__ or cause.__context__
    return cause is not None


def _report_internal_error(error: Exception) -> int:
    """Report an error that no command expected. Its message is not shown: it may quote a secret."""
    if os.environ.get("UTCP_GATEWAY_TRACEBACK") == "1":
        import traceback

        _write_error("".join(traceback.format_exception(error)).rstrip())
    _write_error(
        f"Error: utcp-gateway failed unexpectedly ({type(error).__name__}). This is a defect: please report"
        " it, with the traceback that UTCP_GATEWAY_TRACEBACK=1 shows (it may quote your input)."
    )
    return INTERNAL_ERROR


def _open_missing_streams() -> None:
    """Open the standard streams that the parent process has closed, and make all of them take any text.

    A descriptor that is left closed would be taken by the next file or connection, which then gets what is
    printed. Writing to a closed standard output fails, as it should; standard error is discarded.
    """
    for number, name, flags, mode in (
        (0, "stdin", os.O_RDONLY, "r"),
        (1, "stdout", os.O_RDONLY, "w"),
        (2, "stderr", os.O_WRONLY, "w"),
    ):
        stream = getattr(sys, name)
        if stream is None:
            opened = os.open(os.devnull, flags)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, open(number, mode, encoding="utf-8", errors="replace", closefd=False))  # noqa: SIM115
        elif number and hasattr(stream, "reconfigure"):
            # A terminal with another encoding than UTF-8 shows a "?" for what it cannot show.
            stream.reconfigure(errors="replace")


def _flush(code: int) -> int:
    """Flush standard output and return the exit code; 1 instead of 0 where that fails."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError) as error:
        # What is left in the buffer must not be tried again at the exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if isinstance(error, OSError) and error.errno != errno.EPIPE and not code:
            _write_error(f"Error: standard output cannot be written: {error.strerror}.")
        return code or 1
    return code


def _write_error(line: str) -> None:
    """Write a line on standard error, if that can be written."""
    try:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
