"""What direct manuals leave out of a tool, because only this gateway understands it."""

import orjson

from app.discovery.direct_templates import DirectTool, render_direct


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
