"""A call of a ToolClad manifest's `[command]`: its words, its environment, and the folder of its output.

The folder is made for one call, belongs to the account that programs run as, and is removed afterwards. A
file that the program has written there as `{_output_file}` is its output; otherwise its standard output is.
"""

import contextlib
import os
import shlex
import shutil
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from app.core.errors import (
    FieldError,
    InvalidArguments,
    InvalidInput,
    ResponseTooLarge,
    UpstreamUnreachable,
)
from app.core.text import pointer
from app.formats.toolclad.command import CompiledCommand, compile_command
from app.formats.toolclad.contract import Contract
from app.formats.toolclad.envelope import name_output, scan_id_of
from app.protocols.base import Call
from app.protocols.shared.programs import ProgramRules
from app.protocols.shared.programs.rules import is_path, is_shell

_AT: Final = "/toolclad/command"
_PATHS: Final = frozenset({"path", "credential_file"})
_PREFIX: Final = "utcp-gateway-toolclad-"


@dataclass(frozen=True, slots=True)
class ManifestCommand:
    """The compiled command of a contract: paths of its program and of the program that parses its output.

    `folder` is the absolute path of the folder in which both run.
    """

    command: CompiledCommand
    program: str
    parser: str | None
    folder: str

    @property
    def contract(self) -> Contract:
        """The contract of the tool."""
        return self.command.contract


@dataclass(slots=True)
class EvidenceFolder:
    """The folder of one call's output; `output` is the path of the file in it that the program may write."""

    root: str
    output: str

    def read_output(self, max_bytes: int) -> bytes | None:
        """Return what the program wrote into its file, None where it wrote none.

        Raise ResponseTooLarge above `max_bytes`. Links and other files than regular ones are not read.
        """
        try:
            number = os.open(self.output, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return None
        with os.fdopen(number, "rb") as opened:
            found = os.fstat(opened.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_size == 0:
                return None
            if found.st_size > max_bytes:
                raise ResponseTooLarge(f"The program wrote more than {max_bytes} bytes.")
            return opened.read(max_bytes)

    def write_output(self, content: bytes, rules: ProgramRules) -> None:
        """Write standard output into the file, for a program that parses it."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with os.fdopen(os.open(self.output, flags, 0o600), "wb") as opened:
            opened.write(content)
        _give(self.output, rules)

    def remove(self) -> None:
        """Remove the folder with all that is in it."""
        shutil.rmtree(self.root, ignore_errors=True)


def compile_manifest_command(contract: Contract, rules: ProgramRules) -> ManifestCommand:
    """Return the command of a contract; raise InvalidInput, with pointers into the template, for what may not
    be run.
    """
    command = compile_command(contract, location=_AT)
    program = rules.program(command.program, at=_AT)
    if is_shell(program) and (command.takes_arguments or command.fragments or command.mappings):
        detail = "A shell would read arguments as commands: name a script or another program."
        raise InvalidInput("No argument may be given to a shell.", errors=[FieldError(_AT, detail)])
    parser = contract.output.parser_name
    is_program = not parser.startswith("builtin:")
    folders = rules.settings.program_folders
    if not folders:
        for name, argument in contract.arguments.items():
            if argument.type in _PATHS:
                detail = "Paths are relative to the first folder of PROGRAM_FOLDERS, which is not set."
                at = pointer("/toolclad/arguments", name, "type")
                raise InvalidInput("The program has no folder.", errors=[FieldError(at, detail)])
    return ManifestCommand(
        command=command,
        program=program,
        parser=rules.program(parser, at="/toolclad/output/parser") if is_program else None,
        folder=rules.folder(folders[0] if folders else None, at=_AT),
    )


def make_folder(target: ManifestCommand, call_id: str, rules: ProgramRules) -> EvidenceFolder | None:
    """Return the folder of a call's output, None where neither the command nor a parser uses one."""
    if not target.command.uses_files and target.parser is None:
        return None
    try:
        root = tempfile.mkdtemp(prefix=_PREFIX)
        output = Path(root) / name_output(target.contract, scan_id_of(call_id))
        output.parent.mkdir(mode=0o700)
        for path in (root, str(output.parent)):
            _give(path, rules)
    except OSError:
        raise UpstreamUnreachable("No folder could be made for the output.", request_sent=False) from None
    return EvidenceFolder(root, str(output))


def injected(target: ManifestCommand, call_id: str, folder: EvidenceFolder | None) -> dict[str, str]:
    """Return the values of `{_scan_id}`, `{_evidence_dir}`, `{_output_dir}` and `{_output_file}`.

    Without a folder, in a preview, paths are those below `{_evidence_dir}`.
    """
    scan_id = scan_id_of(call_id) if call_id else "<scan_id>"
    output = f"<evidence_dir>/{name_output(target.contract, scan_id)}" if folder is None else folder.output
    return {
        "_scan_id": scan_id,
        "_evidence_dir": "<evidence_dir>" if folder is None else folder.root,
        "_output_dir": output.rpartition("/")[0],
        "_output_file": output,
    }


def check_paths(target: ManifestCommand, arguments: Mapping[str, Any], rules: ProgramRules) -> None:
    """Raise InvalidArguments for what is no path, for a path that leads out of the folder by a link, and for
    a missing file.
    """
    for name, argument in target.contract.arguments.items():
        value = arguments.get(name, argument.default)
        if argument.type not in _PATHS or not isinstance(value, str) or not value:
            continue
        if not is_path(value):
            _reject(name, "Must have no U+0000 and be Unicode text.")
        root = rules.resolved(target.folder)
        real = os.path.realpath(os.path.join(root, value))  # noqa: PTH118
        if real != root and not real.startswith(f"{root.rstrip('/')}/"):
            _reject(name, "It leads out of the program's folder.")
        if argument.type == "credential_file" and not os.path.isfile(real):  # noqa: PTH113
            _reject(name, "There is no file of this path in the program's folder.")


def command_text(target: ManifestCommand, call: Call[Any]) -> str:
    """Return the command as one text, quoted as a POSIX shell would read it."""
    values = injected(target, call.call_id, None)
    return shlex.join([target.program, *target.command.arguments(call.arguments, values)])


def _reject(name: str, detail: str) -> None:
    raise InvalidArguments("The path cannot be used.", errors=[FieldError(pointer("", name), detail)])


def _give(path: str, rules: ProgramRules) -> None:
    account = rules.account()
    if account is not None:
        with contextlib.suppress(OSError):
            os.chown(path, account.user, account.group, follow_symlinks=False)
