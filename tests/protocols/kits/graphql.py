"""GraphQL, by the server of the library `strawberry`."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import orjson
import strawberry
from aiohttp import web
from strawberry.aiohttp.views import GraphQLView
from strawberry.schema.config import StrawberryConfig

from tests.harness.beside import web_server
from tests.protocols.kits.base import HUGE, Kit, Template, Upstream, free_port
from tests.protocols.kits.http import respond

JSON = strawberry.scalar(name="JSON", serialize=lambda value: value, parse_value=lambda value: value)


class Json:
    """Any JSON value."""


ECHO = """query Echo($word: String!, $number: Int, $yes: Boolean, $list: JSON, $deep: JSON) {
  echo(word: $word, number: $number, yes: $yes, list: $list, deep: $deep)
}"""
DOCUMENTS = {
    "echo": ECHO, "silent": "{ silent }", "huge": "{ huge }", "rejects": "{ rejects }",
    "breaks": "{ breaks }", "stream": "subscription { n(last: 2) }",
    "endless": "subscription { padded }",
}  # fmt: skip


def schema_for(upstream: Upstream) -> strawberry.Schema:
    @strawberry.type
    class Query:
        @strawberry.field
        def echo(
            self, word: str, number: int | None = None, yes: bool | None = None, list: Json | None = None,  # noqa: A002
            deep: Json | None = None,
        ) -> Json:  # fmt: skip
            return {"word": word, "number": number, "yes": yes, "list": list, "deep": deep}

        @strawberry.field
        async def silent(self) -> str:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                upstream.gone.set()
                raise
            return ""

        @strawberry.field
        def huge(self) -> str:
            return "x" * HUGE

        @strawberry.field
        def rejects(self) -> str | None:
            message = "no such thing"
            raise ValueError(message)

    @strawberry.type
    class Subscription:
        @strawberry.subscription
        async def n(self, last: int | None = None) -> AsyncIterator[int]:
            try:
                while last is None or upstream.sent <= last:
                    yield upstream.sent
                    upstream.sent += 1
                    if last is not None:
                        await asyncio.sleep(0.05)
            finally:
                upstream.gone.set()

        @strawberry.subscription
        async def padded(self) -> AsyncIterator[str]:
            try:
                while True:
                    yield "x" * 16384
                    upstream.sent += 1
            finally:
                upstream.gone.set()

    config = StrawberryConfig(scalar_map={Json: JSON})
    return strawberry.Schema(Query, subscription=Subscription, config=config)


class GraphqlKit(Kit):
    protocol = "graphql"
    places = ("header", "query", "cookie")

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[Upstream]:
        upstream = Upstream("")
        view = GraphQLView(schema=schema_for(upstream), keep_alive=False)

        async def handle(request: web.Request) -> web.StreamResponse:
            if request.path == "/breaks":
                return await respond(request, upstream)
            seen = {name.lower(): value for name, value in request.headers.items()}
            upstream.seen.append(
                seen | {f"query:{name.lower()}": value for name, value in request.query.items()}
            )
            return await view(request)

        application = web.Application(client_max_size=HUGE)
        application.router.add_route("*", "/{case:.*}", handle)
        async with web_server(application, handler_cancellation=True) as upstream.place:
            yield upstream

    def template(self, upstream: Upstream, case: str) -> Template:
        base = f"http://127.0.0.1:{free_port()}" if case == "unreachable" else upstream.place
        document = DOCUMENTS.get(case, ECHO)
        return {"call_template_type": "graphql", "url": f"{base}/{case}", "query": document}

    def discovery(self, upstream: Upstream) -> Template:
        return {"call_template_type": "graphql", "url": f"{upstream.place}/graphql"}

    def addresses(self, text: str) -> list[Template]:
        template = {"call_template_type": "graphql", "url": f"http://{text}/"}
        return [{**template, "query": "{ a }"}, {**template, "query": "subscription { a }"}]

    def echoed(self, body: bytes) -> Any:
        return orjson.loads(body)["echo"]
