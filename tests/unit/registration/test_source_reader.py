"""Sources -> ParsedSource, below the API."""

import pytest

from app.registration.source_reader import laid_over


@pytest.mark.parametrize(("name", "whole"), [("read", True), ("cost$", True), ("x${AWS_KEY}", False)])
def test_introspected_tool_template_names_no_variables(name, whole):
    part = {"call_template_type": "mcp", "config": {"mcpServers": {"s": {"url": "${BASE}/mcp"}}}}
    laid = laid_over(part, {"name": name, "tool_call_template": {"tool_name": name}})["tool_call_template"]
    assert laid == ({**part, "tool_name": name} if whole else None)
