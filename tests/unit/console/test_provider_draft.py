"""Drafts of providers: what may stand in a URL, how they are sealed, and which requests they become."""

import orjson
import pytest
from starlette.datastructures import FormData, QueryParams

from app.console.forms.provider_draft import Draft, DraftLost, legal_name, shown_url
from app.security.vault import KeyRing, Vault
from tests.harness.cases import for_each

SECRET = "canary-90ab1e7720"


@pytest.fixture
def vault():
    made = Vault(KeyRing.parse(KeyRing.generate("test")))
    made.load([made.new_data_key("data")])
    return made


@pytest.mark.parametrize(
    "url", ["https://api.example.com/openapi.json", "https://api.example.com/spec?format=yaml&version=3"]
)
def test_plain_address_is_the_url_of_the_page_and_back(url):
    draft = Draft(url=url, name="shop", server="1", variables={"tenant": "acme"})
    assert draft.fits_url
    query = draft.as_query()
    pairs = [
        (name, one)
        for name, value in query.items()
        for one in (value if isinstance(value, list) else [value])
    ]
    assert Draft.from_query(QueryParams([(name, value) for name, value in pairs if value])) == draft


@for_each(
    "draft",
    [
        Draft(url=f"https://me:{SECRET}@api.example.com/"),
        Draft(url=f"https://api.example.com/?api_key={SECRET}"),
        Draft(url=f"https://api.example.com/?X-Amz-Signature={SECRET}"),
        Draft(url="https://api.example.com/", token=SECRET),
        Draft(source="file", files=(("a.json", SECRET.encode()),)),
    ],
)
def test_secret_keeps_a_draft_out_of_urls_and_its_own_words(draft):
    assert not draft.fits_url
    assert SECRET not in draft.shown_source
    assert SECRET not in repr(draft)


async def test_sealed_draft_opens_for_its_key_only(vault):
    draft = Draft(source="file", name="pets", token=SECRET, files=(("a.json", b"{}"), ("b.toml", b"x = 1")))
    sealed = await draft.sealed(vault, "one")
    assert SECRET not in sealed
    assert await Draft.from_form(FormData({"draft": sealed}), vault=vault, key_id="one") == draft
    with pytest.raises(DraftLost):
        await Draft.from_form(FormData({"draft": sealed}), vault=vault, key_id="two")
    with pytest.raises(DraftLost):
        await Draft.from_form(FormData({"draft": sealed[:-8]}), vault=vault, key_id="one")


async def test_fields_of_a_form_replace_those_of_its_draft(vault):
    sealed = await Draft(source="paste", name="old", files=(("", b"{}"),)).sealed(vault, "one")
    fields = FormData(
        {"draft": sealed, "name": "new", "base_url": "https://x.example.com", "variable.a": "1"}
    )
    changed = await Draft.from_form(fields, vault=vault, key_id="one")
    assert (changed.name, changed.base_url, changed.variables) == ("new", "https://x.example.com", {"a": "1"})
    assert changed.files == (("", b"{}"),)


@for_each(
    ("draft", "name"),
    [
        (Draft(url="https://api.github.com/openapi.json"), "github"),
        (Draft(url="https://petstore3.swagger.io/api/v3/openapi.json"), "petstore3"),
        (Draft(url="http://127.0.0.1:8001/openapi.json"), "api"),
        (Draft(url="http://127.0.0.1:8001/billing/openapi.json"), "billing"),
        (Draft(source="grpc", url="grpcs://orders.example.com:443"), "example"),
        (Draft(source="file", files=(("My Shop (v2).json", b""),)), "my-shop-v2"),
        (Draft(source="paste", files=(("", b""),)), "api"),
        (Draft(url="http://[::1"), "api"),
    ],
)
def test_proposed_name_comes_from_the_source(draft, name):
    assert draft.proposed_name() == name


@pytest.mark.parametrize(
    ("source", "url", "template"),
    [
        (
            "graphql",
            "https://a.example/graphql",
            {"call_template_type": "graphql", "url": "https://a.example/graphql"},
        ),
        (
            "grpc",
            "a.example:50051",
            {"call_template_type": "grpc", "host": "a.example", "port": 50051, "use_ssl": True},
        ),
        (
            "grpc",
            "grpc://a.example",
            {"call_template_type": "grpc", "host": "a.example", "port": 80, "use_ssl": False},
        ),
    ],
)
def test_address_of_a_protocol_becomes_its_call_template(source, url, template):
    assert Draft(source=source, url=url).request("x")["json"]["source"] == {"call_template": template}


def test_token_is_sent_with_the_source_only():
    body = Draft(source="mcp", url="https://mcp.example.com/mcp", token="t").request("docs")["json"]
    template = body["source"]["call_template"]
    assert template["config"] == {
        "mcpServers": {"server": {"transport": "http", "url": "https://mcp.example.com/mcp"}}
    }
    assert template["auth"]["api_key"] == "Bearer t"


def test_document_is_sent_as_a_file_with_its_options():
    files = (("pets.yaml", b"openapi: 3.0.3"),)
    sent = Draft(source="file", files=files, base_url="https://p.example").request(
        "pets", {"key": {"kind": "bearer"}}
    )
    assert sent["headers"]["Content-Type"].startswith("multipart/form-data; boundary=")
    for part in (
        b'name="file"; filename="pets.yaml"',
        b"application/yaml",
        b"openapi: 3.0.3",
        b'name="credentials"',
    ):
        assert part in sent["body"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([{"name": "a", "url": "https://a.example"}], [{"name": "a", "url": "https://a.example"}]),
        (
            {"name": "a", "call_template_type": "http", "url": "https://a.example"},
            {
                "name": "x",
                "source": {
                    "call_template": {"name": "a", "call_template_type": "http", "url": "https://a.example"}
                },
            },
        ),
        ({"name": "a", "url": "https://a.example"}, {"name": "x", "url": "https://a.example"}),
    ],
)
def test_pasted_registration_is_sent_as_json(value, expected):
    draft = Draft(source="paste", files=(("", orjson.dumps(value)),))
    assert draft.request("x") == {"json": expected}


def test_commands_are_quoted_for_a_shell():
    draft = Draft(url="https://api.example.com/openapi.json?a=1&b=2")
    slots = [{"slot": "key", "exact_kind": "bearer"}]
    assert draft.commands("shop", slots).splitlines() == [
        "utcp-gateway providers add 'https://api.example.com/openapi.json?a=1&b=2' --name shop --preview",
        "utcp-gateway providers add 'https://api.example.com/openapi.json?a=1&b=2' --name shop",
        "utcp-gateway credentials set shop key --kind bearer",
        "utcp-gateway tools list --provider shop",
    ]


@pytest.mark.parametrize(
    ("text", "name"), [("Pets & Co. API", "pets-co-api"), ("ä", "api"), ("x" * 80, "x" * 50)]
)
def test_title_becomes_a_legal_name(text, name):
    assert legal_name(text) == name


def test_shown_url_has_no_user_and_no_query():
    assert shown_url(f"https://me:{SECRET}@api.example.com/a?b={SECRET}") == "https://api.example.com/a"
