"""What direct manuals leave out of a tool, because only this gateway understands it."""

import orjson
import pytest

from app.agents.utcp.direct_templates import DirectSlot, DirectTool, NotDirect, render_direct
from app.security.requirements import compile_security


def test_the_argument_that_chooses_fields_is_left_out() -> None:
    template = {"call_template_type": "graphql", "url": "https://a.example/graphql", "query": "{ pets { name } }",
                "fields_argument": "_fields"}  # fmt: skip
    properties = {"_fields": {"type": "array"}, "size": {"type": "integer"}}
    tool = DirectTool(
        name="pets", description="", provider="p", inputs={"properties": properties}, outputs={}, tags=(),
        template=template,
    )  # fmt: skip
    rendered = orjson.loads(render_direct(tool, 1))
    assert list(rendered["inputs"]["properties"]) == ["size"]
    assert "fields_argument" not in rendered["tool_call_template"]
    assert rendered["tool_call_template"]["query"] == "{ pets { name } }"


def test_a_scheme_goes_before_its_token_and_a_client_certificate_into_no_manual() -> None:
    def rendered(*alternatives: list[str]) -> dict[str, str]:
        security = [
            [{"slot": slot, "certificate": slot == "tls"} for slot in slots] for slots in alternatives
        ]
        tool = DirectTool(
            name="pets", description="", provider="p", inputs={}, outputs={}, tags=(),
            template={"call_template_type": "http", "url": "https://a.example/pets", "http_method": "GET"},
            security=compile_security(security),
            slots={"key": DirectSlot("bearer", scheme="DPoP"), "tls": DirectSlot("mutual_tls")},
        )  # fmt: skip
        found: dict[str, str] = orjson.loads(render_direct(tool, 1))["tool_call_template"]["auth"]
        return found

    assert rendered(["tls"], ["key"])["api_key"] == "DPoP ${P_KEY}"
    for alternatives in (["tls"], ["tls", "key"]):
        with pytest.raises(NotDirect):
            rendered(alternatives)
