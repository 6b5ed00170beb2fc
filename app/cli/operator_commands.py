"""What the operator's commands share: settings from options, and errors as sentences, not tracebacks."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, NoReturn

import typer
from alembic.util.exc import CommandError
from asyncpg.exceptions import PostgresError
from pydantic import ValidationError
from pydantic_settings import SettingsError
from redis.exceptions import RedisError
from sqlalchemy.exc import DBAPIError

from app.database import SchemaError, check_dsn
from app.embedded import EmbeddedError
from app.errors import GatewayError
from app.sample import SampleError
from app.settings import Settings

DatabaseUrl = Annotated[
    str | None,
    typer.Option("--database-url", help="PostgreSQL DSN [DATABASE_URL].", show_default=False),
]
RedisUrl = Annotated[
    str | None, typer.Option("--redis-url", help="Redis or Valkey URL [REDIS_URL].", show_default=False)
]

_LONGEST_MESSAGE = 500


class OperatorError(Exception):
    """Something the operator can mend; its text is a sentence."""


def fail(sentence: str, *, code: int = 1) -> NoReturn:
    """Ends the command with a sentence on standard error."""
    typer.secho(f"utcp-gateway: {sentence}", fg="red", err=True)
    raise typer.Exit(code)


def warn(sentence: str) -> None:
    """Says on standard error what the operator should know, and goes on."""
    typer.secho(f"utcp-gateway: {sentence}", fg="yellow", err=True)


def settings_with(**options: Any) -> Settings:
    """The settings of the environment and `.env`, with the options that were given on top."""
    given = {name: value for name, value in options.items() if value is not None}
    try:
        settings = Settings(**given)
        if settings.database_url is not None:
            check_dsn(settings.database_url.get_secret_value())
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(str(part) for part in fault['loc']).upper()}: {fault['msg']}"
            for fault in error.errors()
        )
        fail(f"A setting is not valid: {faults}", code=2)
    except SettingsError as error:
        # It names the setting and where it stands, not what it is.
        fail(f"A setting is not valid: {error}", code=2)
    except UnicodeDecodeError:
        fail("A setting is not valid: .env is no text in UTF-8.", code=2)
    except OSError as error:
        fail(f"The settings cannot be read: {error.filename}: {error.strerror}.", code=2)
    except ValueError as error:
        fail(f"A setting is not valid: {error}", code=2)
    return settings


def said_by_database(error: Exception) -> str:
    """The primary message of an error of PostgreSQL, in one line, and its kind. The details, which may hold
    values of rows, are left out.
    """
    driver = getattr(error, "orig", None) or error
    cause = driver.__cause__ if isinstance(driver.__cause__, PostgresError) else driver
    message = str(cause.args[0] if cause.args else "").strip().partition("\n")[0]
    text = re.sub(r"[\x00-\x1f\x7f-\x9f]", " ", message).rstrip(".")[:_LONGEST_MESSAGE]
    kind = type(cause).__name__
    return f"{text} ({kind})" if text else kind


@contextmanager
def operator_errors() -> Iterator[None]:
    """Turns what goes wrong with the servers into one sentence and exit code 1."""
    try:
        yield
    except (OperatorError, EmbeddedError, SampleError, SchemaError) as error:
        fail(str(error))
    except GatewayError as error:
        fail(error.detail)
    except RedisError as error:
        fail(f"Redis cannot be used ({type(error).__name__}). Check --redis-url or REDIS_URL.")
    except (DBAPIError, PostgresError, CommandError) as error:
        fail(
            f"PostgreSQL refused: {said_by_database(error)}. "
            "Check --database-url or DATABASE_URL, and its log."
        )
    except OSError as error:
        if error.filename is not None:
            fail(f"{error.filename} cannot be used: {error.strerror}.")
        fail("PostgreSQL cannot be reached. Check --database-url or DATABASE_URL.")
    except ValueError as error:
        # Key rings and DSNs: their messages name what is wrong and never hold the value.
        fail(str(error))
