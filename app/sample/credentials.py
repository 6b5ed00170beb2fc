"""What the sample API asks its callers for: made once per data folder, kept in a 0600 file."""

import json
import os
import secrets
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Self


class SampleError(Exception):
    """The sample API cannot be served; the text is a sentence for the operator."""


@dataclass(frozen=True, slots=True, repr=False)
class SampleCredentials:
    """One secret for each kind of auth. The text form is a JSON object of these fields."""

    library_key: str
    username: str
    password: str
    client_id: str
    client_secret: str

    @classmethod
    def generate(cls) -> Self:
        """New random secrets (192 bits each)."""
        return cls(
            library_key=f"lib_{secrets.token_urlsafe(24)}",
            username="librarian",
            password=secrets.token_urlsafe(24),
            client_id="utcp-gateway",
            client_secret=secrets.token_urlsafe(24),
        )

    def to_json(self) -> str:
        """The text form, on one line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Reads the text form; `ValueError` without any of its content if it is not that."""
        try:
            found = json.loads(text)
            values = {field.name: found[field.name] for field in fields(cls)}
        except (ValueError, KeyError, TypeError):
            values = {}
        if not values or not all(isinstance(value, str) and value for value in values.values()):
            msg = "not the credentials of the sample API"
            raise ValueError(msg)
        return cls(**values)

    @classmethod
    def of_folder(cls, data_dir: Path) -> Self:
        """Those of a data folder, in `<data_dir>/sample.json`; made if there are none yet.

        They protect made-up books on a loopback port, so a damaged file is an error to read, not a disaster:
        removing it makes new ones (and the provider `library` then needs them).
        """
        path = data_dir / "sample.json"
        try:
            data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not path.exists():
                made = cls.generate()
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
                with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
                    file.write(made.to_json() + "\n")
                return made
            return cls.from_json(path.read_text(encoding="utf-8"))
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise SampleError(f"The sample API's credentials {path} cannot be used: {reason}.") from error
        except ValueError as error:
            raise SampleError(f"The sample API's credentials {path} are damaged; remove the file.") from error
