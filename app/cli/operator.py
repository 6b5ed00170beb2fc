"""What the operator's commands share: settings from options, and errors as sentences, not tracebacks."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, NoReturn

import typer
from alembic.util.exc import CommandError
from asyncpg.exceptions import PostgresError
from pydantic import ValidationError
from redis.exceptions import RedisError
from sqlalchemy.exc import DBAPIError

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
        return Settings(**given)
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(str(part) for part in fault['loc']).upper()}: {fault['msg']}"
            for fault in error.errors()
        )
        fail(f"A setting is not valid: {faults}", code=2)


@contextmanager
def operator_errors() -> Iterator[None]:
    """Turns what goes wrong with the servers into one sentence and exit code 1."""
    try:
        yield
    except (OperatorError, EmbeddedError, SampleError) as error:
        fail(str(error))
    except GatewayError as error:
        fail(error.detail)
    except RedisError as error:
        fail(f"Redis cannot be used ({type(error).__name__}). Check --redis-url or REDIS_URL.")
    except (DBAPIError, PostgresError, CommandError) as error:
        cause = getattr(error, "orig", None) or error
        fail(
            f"PostgreSQL refused ({type(cause).__name__}). Check --database-url or DATABASE_URL, and its log."
        )
    except (OSError, TimeoutError):
        fail("PostgreSQL cannot be reached. Check --database-url or DATABASE_URL.")
    except ValueError as error:
        # Key rings and DSNs: their messages name what is wrong and never hold the value.
        fail(str(error))
