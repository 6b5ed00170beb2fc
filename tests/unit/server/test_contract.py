"""openapi/gateway.json is the contract: it changes only on purpose; `make contract` writes it."""

from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import orjson
import pytest
from pydantic import ValidationError

from app.agents.call.endpoint import CALL_ROUTE
from app.core.settings import Settings
from app.main import create_app
from tests.harness.cases import for_each
from tests.harness.contract import CONTRACT

SCHEMAS: dict[str, Any] = CONTRACT["components"]["schemas"]


def test_the_stored_contract_is_what_the_gateway_serves() -> None:
    served = orjson.loads(orjson.dumps(create_app(Settings(_env_file=None)).openapi()))
    assert served == CONTRACT, "The contract has changed: make contract"


def test_the_call_route_and_its_description_agree() -> None:
    assert set(CONTRACT["paths"][CALL_ROUTE.path]) == {method.lower() for method in CALL_ROUTE.methods or ()}


def test_every_operation_has_an_id_a_tag_and_a_problem_for_wrong_input() -> None:
    ids = []
    for item in CONTRACT["paths"].values():
        for operation in item.values():
            ids.append(operation["operationId"])
            assert operation["tags"], operation
            assert operation.get("description"), operation["operationId"]
    assert len(ids) == len(set(ids))


# What follows are rules of generators of clients (docs/clients.md); `make clients` runs the generators themselves.


def test_statuses_of_responses_are_listed_one_by_one() -> None:
    for operation in _operations():
        found = set(operation["responses"]) - {"default"}
        assert all(status.isdecimal() for status in found), operation["operationId"]


def test_examples_have_no_references_to_schemas() -> None:
    for operation in _operations():
        bodies = [operation.get("requestBody", {}), *operation["responses"].values()]
        examples = [media.get("example") for body in bodies for media in body.get("content", {}).values()]
        assert b'"$ref"' not in orjson.dumps(examples), operation["operationId"]


def test_json_beside_a_form_is_described_by_objects_only() -> None:
    # The client of openapi-python-client tells the two by isinstance(), which takes neither lists nor Any.
    checked = 0
    for operation in _operations():
        content = operation.get("requestBody", {}).get("content", {})
        if {"application/json", "multipart/form-data"} <= set(content):
            checked += 1
            for schema in _alternatives(content["application/json"]["schema"]):
                assert schema.get("type") == "object", (operation["operationId"], schema)
    assert checked


def test_no_property_with_an_enum_gets_the_name_of_a_component() -> None:
    # A generator names the type of an inline enum after the component and the property.
    schemas = CONTRACT["components"]["schemas"]
    clashes = {
        name + property_name.title().replace("_", "")
        for name, schema in schemas.items()
        for property_name, member in schema.get("properties", {}).items()
        if "enum" in member
    } & set(schemas)
    assert clashes == set()


def test_the_arguments_of_a_call_are_a_component_of_any_members() -> None:
    schema = CONTRACT["paths"][CALL_ROUTE.path]["post"]["requestBody"]["content"]["application/json"][
        "schema"
    ]
    assert schema == {"$ref": "#/components/schemas/CallArguments"}
    arguments = CONTRACT["components"]["schemas"]["CallArguments"]
    assert (arguments["type"], arguments["additionalProperties"]) == ("object", True)


def test_no_schema_of_an_object_with_many_members_stands_outside_the_components() -> None:
    found = []
    for at, schema in _schemas_within(CONTRACT["paths"], "paths"):
        if len(schema.get("properties", {})) > 3:
            found.append(at)
    for name, component in SCHEMAS.items():
        for at, schema in _schemas_within(component, name):
            if at != name and len(schema.get("properties", {})) > 3:
                found.append(at)
    assert found == []


def test_no_two_components_are_equal() -> None:
    seen: dict[bytes, str] = {}
    for name, schema in SCHEMAS.items():
        members = {key: value for key, value in schema.items() if key not in {"title", "description"}}
        text = orjson.dumps(members, option=orjson.OPT_SORT_KEYS)
        assert text not in seen, (name, seen.get(text))
        seen[text] = name


def test_every_component_is_used_and_has_its_name_as_title() -> None:
    # A generator names the class after the title.
    text = orjson.dumps(CONTRACT)
    for name, schema in SCHEMAS.items():
        assert f'"#/components/schemas/{name}"'.encode() in text, name
        assert schema.get("title", name) == name


def test_every_tag_of_an_operation_is_described_and_every_described_tag_is_used() -> None:
    described = {tag["name"] for tag in CONTRACT["tags"] if tag["description"]}
    assert {tag for operation in _operations() for tag in operation["tags"]} == described
    assert len(CONTRACT["tags"]) == len(described)


def test_summaries_have_three_words_and_are_not_the_id() -> None:
    summaries = [operation["summary"] for operation in _operations()]
    assert [one for one in summaries if len(one.split()) < 3 or one.endswith(".")] == []
    assert len(set(summaries)) == len(summaries)
    ids = {operation["operationId"].lower() for operation in _operations()}
    assert {one.replace(" ", "").lower() for one in summaries} & ids == set()


def test_every_response_has_a_schema_or_no_body() -> None:
    for operation in _operations():
        for status, response in operation["responses"].items():
            where = (operation["operationId"], status)
            assert response["description"] != "Successful Response", where
            if status in {"204", "304"}:
                assert "content" not in response, where
                continue
            assert response["content"], where
            for media_type, media in response["content"].items():
                assert media.get("schema") or media_type == "*/*", where


def test_every_json_response_and_body_has_an_example() -> None:
    for operation in _operations():
        for body in (operation.get("requestBody", {}), *operation["responses"].values()):
            for media_type, media in body.get("content", {}).items():
                if media_type == "application/json" or media_type.endswith("+json"):
                    assert "example" in media or "examples" in media, operation["operationId"]


def test_public_operations_have_no_security_and_all_others_have_some() -> None:
    public = {operation["operationId"] for operation in _operations() if operation["security"] == []}
    assert all("x-required-scopes" not in one for one in _operations() if one["operationId"] in public)
    assert {"live", "ready", "listScopes"} <= public
    assert all(
        operation["security"] and "x-required-scopes" in operation
        for operation in _operations()
        if operation["operationId"] not in public
    )


def test_the_forms_of_a_registration_and_of_a_source_are_told_apart_by_their_required_members() -> None:
    for name in ("Registration", "SourceInput"):
        forms = [SCHEMAS[_name(one)] for one in SCHEMAS[name]["oneOf"]]
        for form in forms:
            # Or the form takes no other members.
            others = [set(other["required"]) for other in forms if other is not form]
            is_closed = form.get("additionalProperties") is False
            assert is_closed or all(not set(form["required"]) <= other for other in others), form["title"]


@for_each(
    ("body", "form"),
    [
        ({"name": "pets", "url": "https://pets.example.com/openapi.json"}, "UrlRegistrationInput"),
        ({"name": "pets", "source": {"url": "https://pets.example.com/openapi.json"}}, "RegistrationInput"),
        ({"name": "pets", "source": {"manual": {"tools": []}}}, "RegistrationInput"),
        (
            {"name": "pets", "call_template_type": "http", "url": "https://pets.example.com"},
            "CallTemplateBody",
        ),
        ({"name": "pets", "provider_type": "http", "url": "https://pets.example.com"}, "UtcpProviderBody"),
        ({"manual_call_templates": [{}]}, "ClientConfigurationBody"),
        ({"openapi": "3.1.0", "info": {"title": "Pets"}, "paths": {}}, "OpenAPIBody"),
        ({"swagger": "2.0", "paths": {}}, "SwaggerBody"),
        ({"utcp_version": "1.0.1", "tools": []}, "ManualBody"),
    ],
)
def test_a_registration_is_of_exactly_one_form(body: dict[str, Any], form: str) -> None:
    forms = [_name(one) for one in SCHEMAS["Registration"]["oneOf"]]
    assert [name for name in forms if _validator(name).is_valid(body)] == [form]
    assert _validator("Registration").is_valid(body)


@pytest.mark.parametrize(
    "source", [{}, {"url": "https://a.example", "manual": {}}, {"manual": {}, "root": "a"}, {"url": None}]
)
def test_a_source_of_no_form_or_of_two_is_not_valid(source: dict[str, Any]) -> None:
    assert not _validator("RegistrationInput").is_valid({"name": "pets", "source": source})


def test_contact_licence_terms_and_server_are_those_of_the_settings() -> None:
    settings = Settings(
        _env_file=None,
        public_base_url="https://tools.example.com/gateway/",
        contact_name="API team",
        contact_url="https://example.com/help",
        contact_email="api@example.com",
        license_name="Terms of Example",
        license_url="https://example.com/licence",
        terms_of_service_url="https://example.com/terms",
    )
    document = create_app(settings).openapi()
    assert [server["url"] for server in document["servers"]] == ["https://tools.example.com/gateway"]
    assert document["info"]["contact"] == {
        "name": "API team",
        "url": "https://example.com/help",
        "email": "api@example.com",
    }
    assert document["info"]["license"] == {"name": "Terms of Example", "url": "https://example.com/licence"}
    assert document["info"]["termsOfService"] == "https://example.com/terms"


def test_without_settings_the_licence_is_that_of_the_gateway() -> None:
    assert CONTRACT["info"]["license"] == {"name": "Apache-2.0", "identifier": "Apache-2.0"}
    assert "termsOfService" not in CONTRACT["info"]
    assert [server["url"] for server in CONTRACT["servers"]] == ["http://127.0.0.1:8000"]


@pytest.mark.parametrize(
    "setting", [{"contact_url": "example.com"}, {"contact_email": "nobody"}, {"terms_of_service_url": "x"}]
)
def test_a_contact_that_is_not_valid_is_rejected(setting: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        Settings(_env_file=None, **setting)  # type: ignore[arg-type]


def _name(reference: dict[str, str]) -> str:
    return reference["$ref"].rpartition("/")[2]


def _validator(name: str) -> Any:
    return jsonschema_rs.validator_for(
        {"$ref": f"#/components/schemas/{name}", "components": CONTRACT["components"]}
    )


def _schemas_within(node: Any, at: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each object of a document that is not within an example, with its place."""
    if isinstance(node, list):
        for index, member in enumerate(node):
            yield from _schemas_within(member, f"{at}/{index}")
    elif isinstance(node, dict):
        yield at, node
        for name, member in node.items():
            if name not in {"example", "examples", "default", "enum"}:
                yield from _schemas_within(member, f"{at}/{name}")


def _operations() -> list[dict[str, Any]]:
    return [operation for item in CONTRACT["paths"].values() for operation in item.values()]


def _alternatives(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the schemas that a schema consists of, references followed."""
    if "$ref" in schema:
        yield from _alternatives(CONTRACT["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    elif members := schema.get("anyOf", schema.get("oneOf")):
        for member in members:
            yield from _alternatives(member)
    else:
        yield schema
