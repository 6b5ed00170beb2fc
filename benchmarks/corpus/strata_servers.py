"""M16 for where requests go and what they ask for: server variables, the choice of a server, and Accept.

The expected URL is put together from the pieces that the case was made of, and the expected order of media
types from a literal reading of RFC 9110 section 12.5.1 with JSON first.
"""

import random
from typing import Any

from benchmarks.corpus.cases import Case
from benchmarks.corpus.reading import Json

_LABELS = ("eu", "us-1", "acme", "api", "x7")
_TYPES = (
    "application/json", "application/hal+json", "application/problem+json", "application/xml", "text/csv",
    "text/plain", "application/pdf", "image/png", "application/octet-stream",
)  # fmt: skip


def _variable(rng: random.Random, given: Json, name: str, choices: tuple[str, ...]) -> tuple[Json, str]:
    """Return a Server Variable Object, and the value that it has; the registrar's goes to `given`."""
    values = rng.sample(choices, rng.randint(1, len(choices)))
    kind = rng.choice(("default", "enum", "both", "none"))
    node: Json = {}
    if kind in ("enum", "both"):
        node["enum"] = values
    if kind in ("default", "both"):
        node["default"] = rng.choice(values)
    if kind == "none" or rng.random() < 0.5:
        given[name] = rng.choice(values)
    return node, str(given.get(name, node.get("default", values[0])))


def _server(rng: random.Random, given: Json, prefix: str = "") -> tuple[Json, str]:
    """Return a Server Object with variables, and its URL."""
    pieces = {
        "host": ("https://{%s}.example.com", "https://%s.example.com", _LABELS),
        "port": ("https://api.example.com:{%s}", "https://api.example.com:%s", ("8443", "444")),
        "path": ("https://api.example.com/{%s}", "https://api.example.com/%s", ("v1", "v2/beta")),
        "whole": ("{%s}", "%s", ("https://a.example.com", "https://b.example.com/v1")),
    }
    written, became, choices = pieces[rng.choice(sorted(pieces))]
    name = f"{prefix}{rng.choice(('tenant', 'region', 'a b', 'x-y'))}"
    node, value = _variable(rng, given, name, choices)
    return {"url": written % name, "variables": {name: node}}, became % value


def _case(servers: list[Json], base: str, **more: Any) -> Case:
    case = Case(server=base, **more)
    case.twin = {**case.document(), "servers": servers}
    return case


def _server_variables(rng: random.Random) -> Case:
    given: Json = {}
    server, base = _server(rng, given)
    return _case([server], base, options={"server_variables": given})


def _server_choice(rng: random.Random) -> Case:
    given: Json = {}
    servers, bases = [], []
    for number in range(rng.randint(2, 5)):
        server, base = _server(rng, given, prefix=f"s{number} ")
        servers.append({**server, "description": f"Environment {number}"})
        bases.append(base)
    index = rng.randrange(len(servers))
    by_url = [one["url"] for one in servers].index(servers[index]["url"]) == index
    choices: list[Any] = [
        index,
        str(index),
        f"environment {index}",
        *([servers[index]["url"]] if by_url else []),
    ]
    return _case(servers, bases[index], options={"server": rng.choice(choices), "server_variables": given})


def _base_url(rng: random.Random) -> Case:
    given: Json = {}
    server, base = _server(rng, given)
    other = f"https://{rng.choice(_LABELS)}.example.org/base"
    # It stands in for the whole URL unless every variable has a value of the registrar.
    return _case([server], base if given else other, options={"server_variables": given, "base_url": other})


def _accept(rng: random.Random) -> Case:
    responses: Json = {}
    listed: list[str] = []
    for status in rng.sample(("200", "201", "2XX"), rng.randint(1, 3)):
        types = rng.sample(_TYPES, rng.randint(1, 3))
        responses[status] = {"description": "", "content": {one: {} for one in types}}
        listed += types
    responses["default"] = {"description": "", "content": {"text/html": {}}}
    return Case(responses=responses, accept=_json_first(listed))


def _produces(rng: random.Random) -> Case:
    own, whole = rng.sample(_TYPES, 3), rng.sample(_TYPES, 2)
    is_own = rng.random() < 0.5
    operation: Json = {"parameters": [], "responses": {}, **({"produces": own} if is_own else {})}
    case = Case(accept=_json_first(own if is_own else whole))
    head = {"swagger": "2.0", "host": "api.example.com", "basePath": "/v1", "schemes": ["https"]}
    case.twin = {**head, "produces": whole, "paths": {case.path: {"post": operation}}}
    return case


def _json_first(listed: list[str]) -> list[str]:
    unique = list(dict.fromkeys(listed))
    plain = [one for one in unique if one == "application/json"]
    suffixed = [one for one in unique if one.endswith("+json")]
    return [*plain, *suffixed, *(one for one in unique if one not in plain + suffixed)][:8]


SERVER_STRATA = {
    "server variables": _server_variables,
    "server choice": _server_choice,
    "base_url": _base_url,
    "Accept": _accept,
    "2.0 produces": _produces,
}
