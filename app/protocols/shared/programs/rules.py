"""The operator's rules for programs: which may run, in which folders and environment, and as which user."""

import os
import pwd
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from app.core.errors import FieldError, InvalidInput, UpstreamUnreachable
from app.core.settings.programs import ProgramSettings
from app.core.text import pointer
from app.protocols.shared.programs.environment import is_reserved

SHELLS: Final = frozenset(
    {
        "sh",
        "bash",
        "dash",
        "ash",
        "zsh",
        "ksh",
        "mksh",
        "csh",
        "tcsh",
        "fish",
        "busybox",
        "pwsh",
        "powershell",
    }
)
"""Programs that interpret their arguments as commands: no argument of a call may be passed to them."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Paths that a list separated by commas can hold.
_WORD: Final = re.compile(r"[^\s,\x00-\x1f]{1,4096}")


@dataclass(frozen=True, slots=True)
class Account:
    """A user and its group, as numeric ids."""

    user: int
    group: int


class ProgramRules:
    """The operator's rules. Methods raise InvalidInput for what they forbid, with a pointer below `at`."""

    def __init__(self, settings: ProgramSettings) -> None:
        self.settings = settings
        self._folders = [os.path.normpath(folder) for folder in settings.program_folders]

    def program(self, word: str, *, at: str) -> str:
        """Return the absolute path of a program of PROGRAMS that is named by its path or its file name."""
        allowed = self.settings.programs
        if not allowed:
            detail = "This gateway runs no programs: its operator lists those that it may in PROGRAMS."
            raise InvalidInput(detail, errors=[FieldError(at, detail + _programs_line(word, allowed))])
        if "/" in word:
            found = [path for path in allowed if path == word]
        else:
            found = [path for path in allowed if PurePath(path).name == word]
        if len(found) != 1:
            detail = "The operator's list PROGRAMS does not have this program."
            if found:
                detail = "Give the absolute path: several programs of the list PROGRAMS have this name."
            else:
                detail += _programs_line(word, allowed)
            field_error = FieldError(at, detail)
            raise InvalidInput("The program may not be run.", errors=[field_error])
        return found[0]

    def folder(self, path: str | None, *, at: str) -> str:
        """Return the working folder, below one of PROGRAM_FOLDERS; `/` where none is given."""
        if path is None:
            return "/"
        folder = os.path.normpath(path)
        if not is_path(path) or not os.path.isabs(path) or not self._contains(folder):  # noqa: PTH117
            field_error = FieldError(
                at, "Give an absolute path in a folder of the operator's list PROGRAM_FOLDERS."
            )
            raise InvalidInput("The program may not run in this folder.", errors=[field_error])
        return folder

    def resolved(self, folder: str) -> str:
        """Return the folder with symbolic links resolved.

        Raise UpstreamUnreachable where it does not exist or is not below one of PROGRAM_FOLDERS.
        """
        real = os.path.realpath(folder)
        inside = folder == "/" or any(_below(real, os.path.realpath(root)) for root in self._folders)
        if not inside or not os.path.isdir(real):  # noqa: PTH112
            raise UpstreamUnreachable("The program's folder does not exist.", request_sent=False)
        return real

    def environment(self, declared: Mapping[str, str], inherit: Iterable[str], *, at: str) -> dict[str, str]:
        """Return the variables of the program: the inherited ones, overridden by those of the template."""
        listed = self.settings.program_env_names
        for index, name in enumerate(inherit):
            if name not in listed:
                at_name = pointer(at, "inherit_env_vars", index)
                field_error = FieldError(
                    at_name, "The operator's list PROGRAM_ENV_NAMES does not have this variable."
                )
                raise InvalidInput("The variable may not be inherited.", errors=[field_error])
        return {name: os.environ[name] for name in inherit if name in os.environ} | dict(declared)

    def check_names(self, names: Iterable[str], *, at: str) -> None:
        """Raise InvalidInput for illegal names of variables, and for those that only the operator may set."""
        listed = self.settings.program_env_names
        names = list(names)
        for name in names:
            if not _NAME.fullmatch(name):
                field_error = FieldError(
                    pointer(at, name), "A variable's name has letters, digits and _ only."
                )
                raise InvalidInput("This is not the name of an environment variable.", errors=[field_error])
        reserved = [name for name in names if is_reserved(name) and name not in listed]
        if reserved:
            detail = (
                "It determines code, configuration, connections or trust of programs. The operator allows it "
                f"with the setting {_setting('PROGRAM_ENV_NAMES', listed, *reserved)}"
            )
            raise InvalidInput(
                "The variable may not be set.",
                errors=[FieldError(pointer(at, name), detail) for name in reserved],
            )

    def check_texts(self, texts: Mapping[str, str]) -> None:
        """Raise InvalidInput for words and values of variables, by pointer, that no program can be given."""
        detail = "Must have no U+0000 and be Unicode text: a program can be given nothing else."
        errors = [FieldError(at, detail) for at, text in texts.items() if not is_path(text)]
        if errors:
            raise InvalidInput("A program cannot be given this text.", errors=errors)

    def account(self) -> Account | None:
        """Return the account that programs run as, from PROGRAM_USER; None for that of the gateway."""
        user = self.settings.program_user
        if user is None:
            return None
        try:
            entry = pwd.getpwuid(int(user)) if user.isdecimal() else pwd.getpwnam(user)
            account = Account(entry.pw_uid, entry.pw_gid)
        except (KeyError, OverflowError):
            if not user.isdecimal():
                raise InvalidInput("PROGRAM_USER names a user that does not exist.") from None
            account = Account(int(user), int(user))
        if os.geteuid() == account.user:
            return None
        if os.geteuid() != 0:
            raise InvalidInput("PROGRAM_USER needs a gateway that runs as root.")
        return account

    def _contains(self, folder: str) -> bool:
        return any(_below(folder, root) for root in self._folders)


def is_path(text: str) -> bool:
    """Return whether the operating system takes a text as a path, or as a word of a command."""
    try:
        return b"\x00" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def is_shell(program: str) -> bool:
    """Return whether the program interprets its arguments as commands."""
    return PurePath(program).name in SHELLS


def _programs_line(word: str, allowed: Sequence[str]) -> str:
    """Return a sentence with the setting that allows a program besides those that are allowed already."""
    path = word if os.path.isabs(word) else shutil.which(word) if "/" not in word else None  # noqa: PTH117
    if path is None:
        path = f"/path/of/{PurePath(word).name}"
    if not _WORD.fullmatch(path):
        return ""
    return f" The operator allows it with the setting {_setting('PROGRAMS', allowed, path)}"


def _setting(name: str, present: Sequence[str], *added: str) -> str:
    """Return the line of a list of the operator with further words."""
    return f"{name}={','.join([*present, *added])}"


def _below(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")
