"""openapi/gateway.json is the contract: it changes only on purpose; `make contract` writes it."""

from pathlib import Path

import orjson

from app.call_api.endpoint import CALL_ROUTE
from app.main import create_app
from app.settings import Settings

ROOT = Path(__file__).parents[2]


def test_the_stored_contract_is_what_the_gateway_serves() -> None:
    stored = orjson.loads((ROOT / "openapi" / "gateway.json").read_bytes())
    served = orjson.loads(orjson.dumps(create_app(Settings(_env_file=None)).openapi()))
    assert served == stored, "The contract has changed: make contract"


def test_the_call_route_and_its_description_agree() -> None:
    document = create_app(Settings(_env_file=None)).openapi()
    assert set(document["paths"][CALL_ROUTE.path]) == {method.lower() for method in CALL_ROUTE.methods or ()}


def test_every_operation_has_an_id_a_tag_and_a_problem_for_wrong_input() -> None:
    document = create_app(Settings(_env_file=None)).openapi()
    ids = []
    for item in document["paths"].values():
        for operation in item.values():
            ids.append(operation["operationId"])
            assert operation["tags"], operation
            assert operation.get("description"), operation["operationId"]
    assert len(ids) == len(set(ids))
