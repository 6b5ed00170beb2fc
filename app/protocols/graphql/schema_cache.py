"""The schemas of servers, as their introspection describes them: for calls that depend on the schema."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any, Final

from graphql import GraphQLError, GraphQLSchema, build_client_schema, validate_schema

from app.core.errors import ResponseTooLarge, UpstreamError, UpstreamMalformed, UpstreamRejected

_MAX_SCHEMAS: Final = 16
_SECONDS: Final = 600.0


class SchemaCache:
    """At most 16 schemas, each for ten minutes, of servers that do not describe theirs as well."""

    def __init__(self) -> None:
        self._schemas: OrderedDict[tuple[object, ...], tuple[float, GraphQLSchema | None]] = OrderedDict()

    def cached(self, key: tuple[object, ...]) -> GraphQLSchema | None:
        """Return the schema if it is cached and there is one."""
        found = self._schemas.get(key)
        return None if found is None or found[0] <= _now() else found[1]

    async def schema(
        self, key: tuple[object, ...], introspect: Callable[[], Awaitable[Any]]
    ) -> GraphQLSchema | None:
        """Return the schema of `introspect`'s data; None where the server does not describe its schema.

        Raise what introspecting raises, but for a rejection of it, with `request_sent` False: it sends
        nothing of the call.
        """
        found = self._schemas.get(key)
        if found is not None and found[0] > _now():
            return found[1]
        schema: GraphQLSchema | None = None
        try:
            data = await introspect()
            schema = await asyncio.to_thread(_valid_schema, data)
        except (UpstreamRejected, UpstreamMalformed, ResponseTooLarge):
            pass
        except UpstreamError as error:
            error.request_sent = False
            raise
        except (GraphQLError, TypeError, ValueError, KeyError, AttributeError, RecursionError):
            # The server validates the document, too.
            pass
        self._schemas[key] = (_now() + _SECONDS, schema)
        self._schemas.move_to_end(key)
        while len(self._schemas) > _MAX_SCHEMAS:
            self._schemas.popitem(last=False)
        return schema


def _valid_schema(data: Any) -> GraphQLSchema | None:
    """Return the schema, None for one that is not valid, by which no document could be validated."""
    schema = build_client_schema(data)
    return None if validate_schema(schema) else schema


def _now() -> float:
    return asyncio.get_running_loop().time()
