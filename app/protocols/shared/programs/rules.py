"""What the operator allows programs: which of them, in which folders, with which environment, as whom."""

import os
import pwd
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from app.errors import FieldError, InvalidInput, UpstreamUnreachable
from app.protocols.shared.programs.environment import is_reserved
from app.settings.programs import ProgramSettings
from app.text import pointer

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
"""Programs whose words are programs themselves: no argument of a caller may stand in them."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Account:
    """A user and its group, by number."""

    user: int
    group: int


class ProgramRules:
    """The rules of one gateway. Each method raises InvalidInput with the given pointer."""

    def __init__(self, settings: ProgramSettings) -> None:
        self.settings = settings
        self._folders = [os.path.normpath(folder) for folder in settings.program_folders]

    def program(self, word: str, *, at: str) -> str:
        """The absolute path of a program that is given by its path, or by its name alone."""
        allowed = self.settings.programs
        if not allowed:
            detail = "This gateway runs no programs: its operator lists those that it may in PROGRAMS."
            raise InvalidInput(detail, errors=[FieldError(at, detail)])
        if "/" in word:
            found = [path for path in allowed if path == word]
        else:
            found = [path for path in allowed if PurePath(path).name == word]
        if len(found) != 1:
            detail = "; its name alone means several of them" if found else ""
            field_error = FieldError(at, f"The operator's list PROGRAMS does not have this program{detail}.")
            raise InvalidInput("The program may not be run.", errors=[field_error])
        return found[0]

    def folder(self, given: str | None, *, at: str) -> str:
        """The folder to work in; `/` where none is given."""
        if given is None:
            return "/"
        folder = os.path.normpath(given)
        if not os.path.isabs(given) or not self._contains(folder):  # noqa: PTH117
            field_error = FieldError(
                at, "Give an absolute path in a folder of the operator's list PROGRAM_FOLDERS."
            )
            raise InvalidInput("The program may not work in this folder.", errors=[field_error])
        return folder

    def resolved(self, folder: str) -> str:
        """Where links lead; UpstreamUnreachable where that is nowhere, or out of the operator's folders."""
        real = os.path.realpath(folder)
        inside = folder == "/" or any(_below(real, os.path.realpath(root)) for root in self._folders)
        if not inside or not os.path.isdir(real):  # noqa: PTH112
            raise UpstreamUnreachable("The program's folder is not there.", request_sent=False)
        return real

    def environment(self, given: Mapping[str, str], inherit: Iterable[str], *, at: str) -> dict[str, str]:
        """The variables of the program: those that are inherited, and over them those that are given."""
        listed = self.settings.program_env_names
        for index, name in enumerate(inherit):
            if name not in listed:
                at_name = pointer(at, "inherit_env_vars", index)
                field_error = FieldError(
                    at_name, "The operator's list PROGRAM_ENV_NAMES does not have this variable."
                )
                raise InvalidInput("The variable may not be inherited.", errors=[field_error])
        return {name: os.environ[name] for name in inherit if name in os.environ} | dict(given)

    def check_names(self, names: Iterable[str], *, at: str) -> None:
        """Refuse names that are none, and those that only the operator may give to programs."""
        for name in names:
            if not _NAME.fullmatch(name):
                field_error = FieldError(
                    pointer(at, name), "A variable's name has letters, digits and _ only."
                )
                raise InvalidInput("This is no name of an environment variable.", errors=[field_error])
            if is_reserved(name) and name not in self.settings.program_env_names:
                detail = (
                    "By it programs choose code, configuration, where they connect or whom they trust; the "
                    "operator can allow it in PROGRAM_ENV_NAMES."
                )
                raise InvalidInput(
                    "The variable may not be set.", errors=[FieldError(pointer(at, name), detail)]
                )

    def account(self) -> Account | None:
        """Whom programs run as; None: as the gateway."""
        user = self.settings.program_user
        if user is None:
            return None
        try:
            entry = pwd.getpwuid(int(user)) if user.isdecimal() else pwd.getpwnam(user)
            account = Account(entry.pw_uid, entry.pw_gid)
        except (KeyError, OverflowError):
            if not user.isdecimal():
                raise InvalidInput("PROGRAM_USER names a user that is not there.") from None
            account = Account(int(user), int(user))
        if os.geteuid() == account.user:
            return None
        if os.geteuid() != 0:
            raise InvalidInput("PROGRAM_USER is for a gateway that runs as root.")
        return account

    def _contains(self, folder: str) -> bool:
        return any(_below(folder, root) for root in self._folders)


def is_shell(program: str) -> bool:
    """Whether the words of this program are programs themselves."""
    return PurePath(program).name in SHELLS


def _below(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")
