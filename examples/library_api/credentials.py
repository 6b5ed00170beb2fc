"""The credentials of the library API: made at its first start, stored in a file of mode 0600."""

import json
import os
import secrets
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Self


class CredentialsError(Exception):
    """The file of credentials cannot be used; the text is a sentence."""


@dataclass(frozen=True, slots=True, repr=False)
class LibraryCredentials:
    """One secret for each kind of auth. The text form is a JSON object of these fields."""

    library_key: str
    username: str
    password: str
    client_id: str
    client_secret: str

    @classmethod
    def generate(cls) -> Self:
        """Return new random secrets (192 bits each)."""
        return cls(
            library_key=f"lib_{secrets.token_urlsafe(24)}",
            username="librarian",
            password=secrets.token_urlsafe(24),
            client_id="utcp-gateway",
            client_secret=secrets.token_urlsafe(24),
        )

    @classmethod
    def load(cls, path: Path) -> Self:
        """Return the credentials of a file, which is made if it does not exist; raise CredentialsError.

        They protect made-up books on a loopback port: if the file is damaged, removing it makes new ones (and
        the provider `library` of a gateway then needs them).
        """
        try:
            if not path.exists():
                made = cls.generate()
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
                with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(made)) + "\n")
                return made
            found = json.loads(path.read_text(encoding="utf-8"))
            values = {field.name: found[field.name] for field in fields(cls)}
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise CredentialsError(f"The credentials in {path} cannot be used: {reason}.") from error
        except (ValueError, KeyError, TypeError):
            values = {}
        if not values or not all(isinstance(value, str) and value for value in values.values()):
            raise CredentialsError(f"The credentials in {path} are damaged; remove the file.")
        return cls(**values)
