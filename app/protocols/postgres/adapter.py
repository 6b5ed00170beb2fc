"""PostgreSQL: one statement that returns rows, in a read-only transaction, which is always rolled back.

What the server enforces: one statement (the extended query protocol), no writing (READ ONLY), the time
(`statement_timeout`) and the number of rows (a portal). What the gateway enforces before: a role that could
do more than a read-only transaction prevents is rejected, and statements without rows (DO, COPY, SET, NOTIFY,
CALL, ...) are not executed. What a function does outside of the transaction is up to the role.
"""

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import orjson
from asyncpg import exceptions

from app.core import exact_json
from app.core.background import TaskSet
from app.core.errors import (
    FieldError,
    InvalidArguments,
    InvalidInput,
    ResponseTooLarge,
    UpstreamErrorResponse,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from app.formats.utcp.call_template import compile_template
from app.outbound.egress import EgressSettings
from app.protocols.base import AdapterContext, Call, Discovered, Result, SendsOnce
from app.protocols.postgres.connections import (
    GuardedLoop,
    PostgresLogin,
    close_connection,
    error_body,
    open_connection,
)
from app.protocols.postgres.template import PostgresTemplate
from app.protocols.postgres.values import distinct_names, json_rows, use_text_forms
from app.protocols.shared.origins import socket_origin
from app.protocols.shared.results import JSON, body_result, time_limit
from app.protocols.shared.sealed_fields import field_values

_BATCH: Final = 200
_OVERHEAD: Final = 1 << 20
_NO_JSON: Final = "A value of the result has no form in JSON: cast it to text"
_PRIVILEGED: Final = (
    "pg_read_server_files", "pg_write_server_files", "pg_execute_server_program", "pg_signal_backend",
    "pg_checkpoint", "pg_maintain", "pg_create_subscription", "pg_signal_autovacuum_worker",
)  # fmt: skip
# Also the first statement of the transaction: once it has a snapshot, nothing can make it writable.
_ROLE: Final = """
SELECT pg_catalog.string_agg(r.rolname::text, ', ' ORDER BY r.rolname) AS names
FROM pg_catalog.pg_roles AS r
WHERE (r.rolsuper OR r.rolreplication OR r.rolname = ANY ($1::text[]))
  AND pg_catalog.pg_has_role(session_user, r.oid, 'MEMBER')
"""
ROLE_HINT: Final = (
    "Create a role for the gateway: CREATE ROLE reader LOGIN PASSWORD '...'; GRANT USAGE ON SCHEMA public TO "
    "reader; GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader;"
)


class QueryTimeout(UpstreamTimeout):
    """The query took too long, which says nothing about others."""

    hint = "Ask for less, e.g. fewer rows or an indexed column, or raise `timeout` of the tool or the plugin."
    agent_hint = "Ask for less, e.g. fewer rows or an indexed column."

    counts_for_breaker: ClassVar[bool] = False


class QueryResultTooLarge(ResponseTooLarge):
    """The rows are too large, which says nothing about other queries."""

    hint = "Select fewer rows or columns, or shorten long values, e.g. by left(text, 200)."
    counts_for_breaker: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class PostgresTarget:
    """A compiled template."""

    model: PostgresTemplate
    origin: str


class PostgresAdapter(SendsOnce):
    """The adapter for queries of PostgreSQL. Each call has a connection of its own."""

    name: ClassVar[str] = "postgres"

    def __init__(self, context: AdapterContext) -> None:
        self._network = context.network
        self._masker = context.masker
        self._closing = TaskSet()

    async def aclose(self) -> None:
        """Wait for connections that are being closed."""
        await self._closing.aclose(timeout=5.0)

    def prepare(self, template: Mapping[str, Any]) -> PostgresTarget:
        """Compile a template of `call_template_type` postgres; raise InvalidInput."""
        model = compile_template(template, PostgresTemplate)
        return PostgresTarget(model, socket_origin("postgres", model.model_dump()))

    def origin(self, target: PostgresTarget) -> str:
        """Return `postgres://host:port`."""
        return target.origin

    def is_safe(self, target: PostgresTarget) -> bool:  # noqa: ARG002 - the contract's.
        """Return True: what a query does is rolled back."""
        return True

    def is_idempotent(self, target: PostgresTarget) -> bool:  # noqa: ARG002 - the contract's.
        """Return True."""
        return True

    def is_sent_once(self, target: PostgresTarget) -> bool:  # noqa: ARG002 - the contract's.
        """Return True: a query that did not end in time would occupy the server again, and functions may act
        outside of the transaction.
        """
        return True

    def request_identity(self, call: Call[PostgresTarget]) -> bytes | None:  # noqa: ARG002 - the contract's.
        """Return None: results are not cached."""
        return None

    def method(self, target: PostgresTarget) -> str:  # noqa: ARG002 - all are the same.
        """Return `QUERY`."""
        return "QUERY"

    async def discover(self, call: Call[PostgresTarget]) -> Discovered:  # noqa: ARG002 - the contract's.
        """Raise InvalidInput: a database publishes no tools."""
        raise InvalidInput(
            "A database publishes no tools: register a manual with them, or enable the plugin."
        )

    def describe(self, call: Call[PostgresTarget]) -> dict[str, Any]:
        """Return the statement and where it is sent, secrets masked as `***`."""
        model = call.target.model
        sealed = field_values(call.credentials, masked=True)
        login = {name: sealed[f"/{name}"] for name in ("username", "password") if f"/{name}" in sealed}
        headers = {**login, "sslmode": model.sslmode}
        url = f"{call.target.origin}/{model.database}"
        return {"method": "QUERY", "url": url, "headers": headers, "body": call.arguments.get("query")}

    async def call(self, call: Call[PostgresTarget]) -> Result:
        """Run the argument `query`, and return `{columns, rows, row_count, truncated}`.

        Raise InvalidArguments for what is not one statement that returns rows, UpstreamRejected for an error
        of the server or a role with too many rights, UpstreamUnauthorized, UpstreamTimeout,
        UpstreamUnreachable, BlockedAddress and ResponseTooLarge.
        """
        query = call.arguments.get("query")
        if not isinstance(query, str) or not query.strip() or "\x00" in query:
            raise _rejected("Give one SQL statement")
        loop = asyncio.get_running_loop()
        model = call.target.model
        deadline = min(call.deadline, loop.time() + model.timeout / 1000 + 5)
        connecting = min(deadline, loop.time() + call.limits.connect)
        guarded = GuardedLoop(
            self._network,
            egress=call.egress,
            deadline=connecting,
            max_bytes=call.limits.response_bytes + _OVERHEAD,
        )
        context = self._tls_context(model, call.egress)
        try:
            connection = await open_connection(
                model, _login(call), guarded, context=context, timeout=connecting - loop.time()
            )
        except BaseException:
            guarded.close()
            raise
        try:
            try:
                with time_limit(deadline):
                    value = await self._rows(connection, query, model)
            except UpstreamTimeout as error:
                raise QueryTimeout(error.detail) from None
        except BaseException as error:
            # In the background: it cancels the query, which may still run.
            self._closing.add(asyncio.create_task(close_connection(connection, guarded)))
            if guarded.has_exceeded and not isinstance(error, asyncio.CancelledError):
                limit = call.limits.response_bytes
                raise QueryResultTooLarge(f"The rows have more than {limit} bytes.") from None
            raise
        connection.terminate()
        guarded.close()
        try:
            body = await asyncio.to_thread(exact_json.dumps, value)
        except orjson.JSONEncodeError:
            raise _rejected(_NO_JSON) from None
        if len(body) > call.limits.response_bytes:
            raise QueryResultTooLarge(f"The rows have more than {call.limits.response_bytes} bytes.")
        return body_result(body, JSON, call)

    async def _rows(self, connection: Any, query: str, model: PostgresTemplate) -> dict[str, Any]:
        """Return the result of a query; raise what a call raises, apart from timeouts of the gateway."""
        try:
            await use_text_forms(connection)
            await connection.transaction(isolation="repeatable_read", readonly=True).start()
            await self._require_reader(connection)
            prepared = await connection.prepare(query)
            columns = prepared.get_attributes()
            if not columns:
                raise _rejected("Only a statement that returns rows is executed, such as SELECT")
            if prepared.get_parameters():
                raise _rejected("Write values in the statement itself: there are none for $1")
            cursor = await prepared.cursor()
            rows: list[Any] = []
            while len(rows) <= model.max_rows:
                found = await cursor.fetch(min(_BATCH, model.max_rows + 1 - len(rows)))
                rows += found
                if len(found) < _BATCH:
                    break
        except exceptions.QueryCanceledError:
            raise QueryTimeout(f"The query took more than {model.timeout} milliseconds.") from None
        except exceptions.PostgresError as error:
            raise self._rejection(error) from None
        except exceptions.UnsupportedClientFeatureError:
            # Of the types whose text is asked for, ranges and rows have no decoder.
            raise _rejected(_NO_JSON) from None
        except (OSError, exceptions.InterfaceError, exceptions.InternalClientError):
            raise UpstreamUnreachable("The connection to the server broke.") from None
        except (OverflowError, ValueError):
            raise _rejected(_NO_JSON) from None
        shown = rows[: model.max_rows]
        names = distinct_names(column.name for column in columns)
        try:
            shown_rows = json_rows(shown, names)
        except RecursionError:
            raise _rejected(_NO_JSON) from None
        return {
            "columns": [
                {"name": name, "type": column.type.name} for name, column in zip(names, columns, strict=True)
            ],
            "rows": shown_rows,
            "row_count": len(shown),
            "truncated": len(rows) > model.max_rows,
        }

    async def _require_reader(self, connection: Any) -> None:
        """Raise UpstreamRejected for a role whose rights a read-only transaction does not limit."""
        names = await connection.fetchval(_ROLE, list(_PRIVILEGED))
        if names:
            body = {"error": f"The role is, or is a member of: {names}."}
            error = UpstreamRejected(
                "The role of the connection has rights that a read-only transaction does not limit.",
                response=UpstreamErrorResponse(403, body),
            )
            error.hint = ROLE_HINT
            raise error

    def _rejection(self, error: exceptions.PostgresError) -> UpstreamRejected:
        body = {name: self._masker.mask(str(value)) for name, value in error_body(error).items()}
        return UpstreamRejected("The server rejected the query.", response=UpstreamErrorResponse(400, body))

    def _tls_context(self, model: PostgresTemplate, egress: EgressSettings | None) -> ssl.SSLContext | None:
        if model.sslmode == "disable":
            return None
        if model.sslmode == "verify-full":
            return self._network.tls_context(egress)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # That is what `require` means: encrypted, to whoever it is.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context


def _login(call: Call[PostgresTarget]) -> PostgresLogin:
    sealed = field_values(call.credentials)
    model = call.target.model
    return PostgresLogin(sealed.get("/username", model.username), sealed.get("/password", model.password))


def _rejected(detail: str) -> InvalidArguments:
    return InvalidArguments(detail, errors=[FieldError("/query", f"{detail}.")])
