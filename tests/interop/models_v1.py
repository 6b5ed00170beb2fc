"""Run by the interpreter that has utcp 1.x and its plugins: reads each manual with the client's own models.

Arguments: paths of manuals. Prints a JSON object: for each path null, or [tool, error] of the tools that are rejected.
"""

import importlib
import json
import logging
import sys
from pathlib import Path
from typing import Any

from utcp.data.tool import ToolSerializer
from utcp.data.utcp_manual import UtcpManualSerializer
from utcp.exceptions import UtcpSerializerValidationError
from utcp.plugins.plugin_loader import ensure_plugins_initialized

PLUGINS = (
    "utcp_http", "utcp_socket", "utcp_text", "utcp_file", "utcp_cli", "utcp_websocket", "utcp_gql", "utcp_mcp",
)  # fmt: skip


def rejected(raw: dict[str, Any]) -> list[tuple[str, str]] | None:
    """The tools that the models reject, and why; None for a manual that they accept."""
    try:
        UtcpManualSerializer().validate_dict(raw)
    except (UtcpSerializerValidationError, TypeError) as error:
        found = [("", str(error)[-500:])]
        for tool in raw["tools"]:
            try:
                ToolSerializer().validate_dict(tool)
            except UtcpSerializerValidationError as one:
                found.append((tool["name"], str(one)[-500:]))
        return found
    return None


logging.disable(logging.CRITICAL)
ensure_plugins_initialized()
for plugin in PLUGINS:
    importlib.import_module(plugin).register()
print(json.dumps({path: rejected(json.loads(Path(path).read_text())) for path in sys.argv[1:]}))
