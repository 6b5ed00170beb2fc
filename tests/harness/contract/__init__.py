"""openapi/gateway.json, which a test of its own compares with what the gateway serves."""

from pathlib import Path
from typing import Any, Final

import orjson

PATH: Final = Path(__file__).parents[3] / "openapi" / "gateway.json"
CONTRACT: Final[dict[str, Any]] = orjson.loads(PATH.read_bytes())
