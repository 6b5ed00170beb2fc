"""What the clients' suites find on the public internet, on loopback: a GraphQL API of countries, and OpenAPI documents."""

import asyncio
import json
import socket
import threading
from pathlib import Path
from typing import Any

from aiohttp import web
from graphql import GraphQLSchema, build_schema, graphql_sync

_DIRECTORY = "https://api.apis.guru/v2/specs/"
_SCHEMA = """
input StringFilter { eq: String, in: [String!] }
input CountryFilterInput { continent: StringFilter, code: StringFilter }
type Language { code: ID!, name: String! }
type Continent { code: ID!, name: String! }
type Country {
  code: ID!, name: String!, capital: String, currency: String, emoji: String!
  languages: [Language!]!, continent: Continent!
}
type Query {
  continents: [Continent!]!
  countries(filter: CountryFilterInput): [Country!]!
  country(code: ID!): Country
}
"""
_CONTINENTS = {
    "AF": "Africa", "AN": "Antarctica", "AS": "Asia", "EU": "Europe", "NA": "North America", "OC": "Oceania",
    "SA": "South America",
}  # fmt: skip
_COUNTRIES = (
    ("US", "United States", "Washington D.C.", "USD", "NA", {"en": "English"}),
    ("FR", "France", "Paris", "EUR", "EU", {"fr": "French"}),
    ("DE", "Germany", "Berlin", "EUR", "EU", {"de": "German"}),
    ("CH", "Switzerland", "Bern", "CHF", "EU", {"de": "German", "fr": "French", "it": "Italian"}),
    ("JP", "Japan", "Tokyo", "JPY", "AS", {"ja": "Japanese"}),
)


def _country(row: tuple[Any, ...]) -> dict[str, Any]:
    code, name, capital, currency, continent, languages = row
    return {
        "code": code, "name": name, "capital": capital, "currency": currency,
        # The flag of a country is its code in regional indicator symbols.
        "emoji": "".join(chr(0x1F1E6 + ord(letter) - ord("A")) for letter in code),
        "languages": [{"code": key, "name": value} for key, value in languages.items()],
        "continent": {"code": continent, "name": _CONTINENTS[continent]},
    }  # fmt: skip


def _schema() -> GraphQLSchema:
    schema = build_schema(_SCHEMA)
    countries = [_country(row) for row in _COUNTRIES]

    def matching(_root: Any, _info: Any, filter: Any = None) -> list[dict[str, Any]]:  # noqa: A002 - GraphQL's name.
        wanted = ((filter or {}).get("continent") or {}).get("eq")
        return [country for country in countries if wanted in (None, country["continent"]["code"])]

    def one(_root: Any, _info: Any, code: str) -> Any:
        return next((country for country in countries if country["code"] == code), None)

    fields: Any = schema.query_type.fields  # type: ignore[union-attr]
    fields["continents"].resolve = lambda *_: [{"code": k, "name": v} for k, v in _CONTINENTS.items()]
    fields["countries"].resolve = matching
    fields["country"].resolve = one
    return schema


class LocalUpstreams:
    """A server in a thread of its own; `countries` is the URL of the GraphQL API."""

    def __init__(self, documents: Path) -> None:
        self._documents = documents
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._origin = ""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._ready.wait(30)

    @property
    def countries(self) -> str:
        return f"{self._origin}/graphql"

    def local(self, address: str) -> str:
        """The address on loopback of a document in the public directory; every other address as it is."""
        if not address.startswith(_DIRECTORY):
            return address
        return f"{self._origin}/documents/{address.removeprefix(_DIRECTORY).partition('/')[0]}"

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.run_forever()
        self._loop.run_until_complete(self._runner.cleanup())
        self._loop.close()

    async def _serve(self) -> None:
        schema = _schema()

        async def query(request: web.Request) -> web.Response:
            body = await request.json()
            variables, name = body.get("variables"), body.get("operationName")
            found = graphql_sync(schema, body["query"], variable_values=variables, operation_name=name)
            return web.Response(text=json.dumps(found.formatted), content_type="application/json")

        async def document(request: web.Request) -> web.StreamResponse:
            return web.FileResponse(self._documents / f"{request.match_info['name']}.json")

        app = web.Application()
        app.router.add_post("/graphql", query)
        app.router.add_get("/documents/{name}", document)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self._origin = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        self._ready.set()


def start(documents: Path) -> LocalUpstreams:
    """Start the server; `documents` is a folder of OpenAPI documents, named after their API."""
    return LocalUpstreams(documents)


def free_port() -> int:
    """A port of loopback at which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
