"""Run by the interpreter that has utcp 0.2.3: models_v1.py with the models of 0.x."""

import json
import sys
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from utcp.shared.tool import Tool
from utcp.shared.utcp_manual import UtcpManual


def rejected(raw: dict[str, Any]) -> list[tuple[str, str]] | None:
    """The tools that the models reject, and why; None for a manual that they accept."""
    try:
        UtcpManual(**raw)
    except ValidationError as error:
        found = [("", str(error)[:500])]
        for tool in raw["tools"]:
            try:
                Tool.model_validate(tool)
            except ValidationError as one:
                found.append((tool["name"], str(one)[:500]))
        return found
    return None


print(json.dumps({path: rejected(json.loads(Path(path).read_text())) for path in sys.argv[1:]}))
