"""Calls of tools of ToolClad manifests: requests, commands, output and evidence."""

import hashlib

import pytest

from tests.api.toolclad.conftest import SECRET

LOOKUP = """
[tool]
name = "lookup"
version = "1.2.0"
description = "Look a word up."
risk_tier = "low"

[args.word]
position = 1
type = "string"
required = true
description = "The word."

[args.limit]
position = 2
type = "integer"
min = 1
max = 50
clamp = true
default = 10

[http]
method = "POST"
url = "{url}/words/{word}?limit={limit}"
headers = {{ Authorization = "Bearer {_secret:words}", X-Word = "w-{word}" }}
body_template = '{{"word": "{word}", "price": "$5 ${{NAME}}", "key": "{_secret:words}"}}'

[output]
format = "json"

[output.schema]
type = "object"
required = ["ok"]

[output.schema.properties.ok]
type = "boolean"
"""


def lookup(url: str) -> str:
    return LOOKUP.replace("{url}", url).replace("{{", "{").replace("}}", "}")


VARIABLES = {"TOOLCLAD_SECRET_WORDS": {"value": SECRET}}


async def test_the_request_has_each_value_in_the_form_of_its_place(clad, site) -> None:
    made = await clad.register("words", lookup(site.url), variables=VARIABLES)
    assert made["report"]["counts"]["accepted"] == 1, made
    response = await clad.call("words.lookup", {"word": 'a/b "c"?&=x'.replace("&", "")})
    assert response.status_code == 200, response.text
    assert response.json() == {"ok": True}
    (sent,) = site.requests
    assert sent["raw"] == "/words/a%2Fb%20%22c%22%3F%3Dx?limit=10"
    assert sent["headers"]["Authorization"] == f"Bearer {SECRET}"
    assert sent["headers"]["X-Word"] == 'w-a/b "c"?=x'
    assert sent["body"] == '{"word": "a/b \\"c\\"?=x", "price": "$5 ${NAME}", "key": "' + SECRET + '"}'


async def test_the_envelope_is_a_form_of_the_response_and_of_the_record(clad, site) -> None:
    site.body = b'{"ok": true, "n": 1.50}'
    await clad.register("words", lookup(site.url), variables=VARIABLES)
    response = await clad.envelope("words.lookup", {"word": "sea", "limit": 3})
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/vnd.toolclad.envelope+json"
    envelope = response.json()
    assert envelope | {"duration_ms": 0, "timestamp": "", "scan_id": "", "output_file": ""} == {
        "status": "success", "scan_id": "", "tool": "lookup", "duration_ms": 0, "timestamp": "", "exit_code": 0,
        "command": f"POST {site.url}/words/sea?limit=3", "stderr": "", "output_file": "",
        "output_hash": f"sha256:{hashlib.sha256(site.body).hexdigest()}", "results": {"ok": True, "n": 1.5},
        "http_status": 200, "http_method": "POST",
    }  # fmt: skip
    assert SECRET not in response.text
    await clad.application.services.call_log.flush()
    recorded = await clad.client.get(f"/calls/{response.headers['x-call-id']}/envelope")
    assert recorded.status_code == 200, recorded.text
    assert recorded.content == response.content


async def test_a_number_outside_of_its_range_is_clamped_whatever_repairs_are_allowed(clad, site) -> None:
    await clad.register("words", lookup(site.url), variables=VARIABLES)
    response = await clad.call("words.lookup", {"word": "sea", "limit": 900}, Prefer="repair=off")
    assert response.status_code == 200, response.text
    assert site.requests[-1]["path"].endswith("?limit=50")
    assert response.headers["x-argument-repairs"] == '"#/limit";kind=clamp'
    assert "preference-applied" not in response.headers
    text = await clad.call("words.lookup", {"word": "sea", "limit": "-4"}, Prefer="repair=off")
    assert text.status_code == 422
    text = await clad.call("words.lookup", {"word": "sea", "limit": "-4"}, Prefer="repair=on")
    assert text.status_code == 200, text.text
    assert site.requests[-1]["path"].endswith("?limit=1")
    assert text.headers["x-argument-repairs"] == '"#/limit";kind=type, "#/limit";kind=clamp'


@pytest.mark.parametrize(
    ("status", "expected"), [(404, "client_error"), (503, "server_error"), (401, "client_error")]
)
async def test_a_status_that_is_no_success_is_one_in_the_envelope_too(clad, site, status, expected) -> None:
    await clad.register("words", lookup(site.url), variables=VARIABLES)
    site.status, site.body = status, b'{"message": "no"}'
    response = await clad.envelope("words.lookup", {"word": "sea"})
    assert response.headers["content-type"] == "application/vnd.toolclad.envelope+json"
    assert response.status_code >= 400
    envelope = response.json()
    assert (envelope["status"], envelope["http_status"], envelope["exit_code"]) == (expected, status, -1)
    assert envelope["output_hash"].startswith("sha256:")
    await clad.application.services.call_log.flush()
    recorded = await clad.client.get(f"/calls/{response.headers['x-call-id']}/envelope")
    assert recorded.content == response.content
