"""A GraphQL peer, by the server of the library `strawberry`."""

from typing import Any

import strawberry
from aiohttp import web
from strawberry.aiohttp.views import GraphQLView

from tests.protocols.peers.http import Handler, HttpPeer


class GraphqlPeer(HttpPeer):
    """A server of `schema`; `override`, where it returns or is a response, takes its place."""

    def __init__(self, schema: strawberry.Schema, override: Handler | None = None) -> None:
        super().__init__(self._respond)
        self.override = override
        self._view = GraphQLView(schema=schema, keep_alive=False)

    def template(self, **fields: Any) -> dict[str, Any]:
        """The call template of this peer."""
        return {"call_template_type": "graphql", "url": f"{self.url}/graphql", **fields}

    def respond_with_schema(self, request: web.Request) -> Any:
        """Return the response of the schema, to be awaited."""
        return self._view(request)

    async def _respond(self, request: web.Request) -> web.StreamResponse:
        if self.override is not None:
            return await self.override(request)
        response: web.StreamResponse = await self.respond_with_schema(request)
        return response
