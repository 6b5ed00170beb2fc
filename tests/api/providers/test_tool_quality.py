"""What a model sees of a large tool, what it costs, and how ready tools are for a model."""

import orjson

from .documents import manual, openapi, tool

LARGEST = 30_000
STEP = "descriptions of the inputs dropped"


def large(url):
    document = {**openapi(url), "security": []}
    properties = {f"property_number_{n}": {"type": "string", "description": "word " * 40} for n in range(400)}
    properties["amount"] = {"type": "integer", "maximum": 5}
    schema = {"type": "object", "properties": properties, "required": ["amount"]}
    document["components"]["schemas"] = {"Large": schema}
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Large"}}}
    document["paths"] = {"/large": {"post": {"operationId": "addLarge", "summary": "Adds a large thing",
                                             "requestBody": {"content": content}, "responses": {}}}}  # fmt: skip
    return document


async def test_a_large_tool_is_shown_slimmed_and_validated_in_full(admin, upstream):
    made = await admin.post("/providers?name=p", json=large(upstream.url))
    assert made.status_code == 201, made.text
    [operation] = made.json()["report"]["operations"]
    steps = ["examples dropped", "descriptions shortened", "descriptions dropped"]
    assert operation["slimmed"] == steps
    assert 0 < operation["tokens"] <= LARGEST / 4
    assert {"many-inputs", "large"} <= {one["rule"] for one in operation["lint"]}
    found = (await admin.get("/tools/p.addLarge")).json()
    assert found["slimmed"] == steps
    full = (await admin.get("/tools/p.addLarge?full=true")).json()
    assert len(orjson.dumps(full["inputs"])) > 60_000
    assert len(orjson.dumps(found["inputs"])) < LARGEST
    hit = (await admin.get("/tools/search?q=large")).json()["items"][0]
    assert hit["inputs"] == found["inputs"]
    for version in ("0", "1"):
        entry = (await admin.get(f"/utcp?version={version}")).json()["tools"][0]
        assert len(orjson.dumps(entry)) <= LARGEST
    called = await admin.post("/tools/p.addLarge/call", json={"body": {"amount": 9}})
    assert called.status_code == 422
    assert called.json()["errors"][0]["pointer"] == "/body/amount"
    assert (await admin.post("/tools/p.addLarge/call", json={"body": {"amount": 1}})).status_code == 200
    again = await admin.post("/providers/p/refresh")
    assert again.json()["difference"]["unchanged"] == ["POST /large"]


async def test_tools_of_manuals_and_custom_tools_are_slimmed_too(admin, upstream):
    inputs = large(upstream.url)["components"]["schemas"]["Large"]
    one = {**tool("big", f"{upstream.url}/big"), "inputs": inputs}
    made = await admin.post("/providers?name=m", json=manual(one))
    assert made.status_code == 201, made.text
    assert made.json()["report"]["operations"][0]["slimmed"][-1] == STEP
    template = {"call_template_type": "http", "http_method": "POST", "url": f"{upstream.url}/x"}
    custom = await admin.post(
        "/tools", json={"provider": "m", "name": "custom", "inputs": inputs, "call_template": template}
    )
    assert custom.status_code == 201, custom.text
    for name in ("m.big", "m.custom"):
        assert (await admin.get(f"/tools/{name}")).json()["slimmed"][-1] == STEP


async def test_a_schema_that_would_be_huge_without_references_is_small_in_a_manual_of_utcp_0(admin, upstream):
    document = large(upstream.url)
    schemas = {f"L{n}": {"type": "object", "properties": {f"p{m}": {"$ref": f"#/components/schemas/L{n + 1}"}
                                                          for m in range(6)}} for n in range(6)}  # fmt: skip
    document["components"]["schemas"] = {**schemas, "L6": {"type": "string"}, "Large": schemas["L0"]}
    made = await admin.post("/providers?name=p", json=document)
    assert made.json()["report"]["operations"][0]["slimmed"] == []
    entry = (await admin.get("/utcp?version=0")).json()["tools"][0]
    assert 1_000 < len(orjson.dumps(entry)) <= LARGEST


async def test_the_report_lists_what_makes_tools_hard_for_a_model(admin, upstream):
    document = openapi(upstream.url, paths=("/pet", "/pets"))
    document["paths"]["/pets"]["get"]["summary"] = "All pets that are for sale"
    document["paths"]["/pet"]["get"]["deprecated"] = True
    made = (await admin.post("/providers?name=p", json=document)).json()
    lint = {one["source_key"]: {found["rule"]: found for found in one["lint"]}
            for one in made["report"]["operations"]}  # fmt: skip
    assert set(lint["GET /pet"]) == {"no-description", "similar-name", "deprecated"}
    assert set(lint["GET /pets"]) == {"similar-name"}
    assert "listPet" in lint["GET /pets"]["similar-name"]["detail"]
    assert lint["GET /pets"]["similar-name"]["suggestion"]
    assert made["report"]["tokens"] == sum(one["tokens"] for one in made["report"]["operations"])
    stored = (await admin.get("/providers/p")).json()["report"]
    assert stored == made["report"]
