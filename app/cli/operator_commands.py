"""Shared parts of the operator's commands: settings from options, and errors as sentences, not tracebacks."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import typer
from alembic.util.exc import CommandError
from asyncpg.exceptions import PostgresError
from pydantic import ValidationError
from pydantic_settings import SettingsError
from redis.exceptions import RedisError
from sqlalchemy.exc import DBAPIError

from app.cli.embedded import EmbeddedError
from app.cli.errors import OperatorError
from app.cli.sample import SampleError
from app.core.errors import GatewayError
from app.core.settings import Settings
from app.storage.database import SchemaError, check_dsn

_MESSAGE_MAX = 500


def fail(sentence: str, *, code: int = 1) -> NoReturn:
    """Write a sentence on standard error and exit with `code`."""
    typer.secho(f"utcp-gateway: {sentence}", fg="red", err=True)
    raise typer.Exit(code)


def warn(sentence: str) -> None:
    """Write a warning on standard error."""
    typer.secho(f"utcp-gateway: {sentence}", fg="yellow", err=True)


def read_settings(**options: Any) -> Settings:
    """Return the settings of the environment and `.env`, overridden by the options that are not None.

    Exit with 2 and a sentence where a setting is not valid.
    """
    overrides = {name: value for name, value in options.items() if value is not None}
    try:
        settings = Settings(**overrides)
        if settings.database_url is not None:
            check_dsn(settings.database_url.get_secret_value())
    except ValidationError as error:
        errors = "; ".join(
            f"{'.'.join(str(part) for part in one['loc']).upper()}: {one['msg']}" for one in error.errors()
        )
        fail(f"A setting is not valid: {errors}", code=2)
    except SettingsError as error:
        # Its text names the setting and its source, not its value.
        fail(f"A setting is not valid: {error}", code=2)
    except UnicodeDecodeError:
        fail("A setting is not valid: .env is not UTF-8.", code=2)
    except OSError as error:
        fail(f"The settings cannot be read: {error.filename}: {error.strerror}.", code=2)
    except ValueError as error:
        fail(f"A setting is not valid: {error}", code=2)
    return settings


def write_database_message(error: Exception) -> str:
    """Return the primary message of an error of PostgreSQL on one line, and its class.

    The details, which may hold values of rows, are left out.
    """
    driver = getattr(error, "orig", None) or error
    cause = driver.__cause__ if isinstance(driver.__cause__, PostgresError) else driver
    message = str(cause.args[0] if cause.args else "").strip().partition("\n")[0]
    text = re.sub(r"[\x00-\x1f\x7f-\x9f]", " ", message).rstrip(".")[:_MESSAGE_MAX]
    kind = type(cause).__name__
    return f"{text} ({kind})" if text else kind


@contextmanager
def convert_operator_errors() -> Iterator[None]:
    """Exit with 1 and a sentence for errors of servers and of settings that are raised in a block."""
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
            f"PostgreSQL reported: {write_database_message(error)}. "
            "Check --database-url or DATABASE_URL, and its log."
        )
    except OSError as error:
        if error.filename is not None:
            fail(f"{error.filename} cannot be used: {error.strerror}.")
        fail("PostgreSQL cannot be reached. Check --database-url or DATABASE_URL.")
    except ValueError as error:
        # Of key rings and DSNs: their messages name the error and never hold the value.
        fail(str(error))
