"""Writes gateway/models.py of the client library: what it returns, of the schemas of openapi/gateway.json.

Run it by `make client-models`. The argument is the file to write.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

from datamodel_code_generator import DataModelType, InputFileType, PythonVersion, generate
from datamodel_code_generator.format import DatetimeClassType

CONTRACT = Path(__file__).parents[3] / "openapi" / "gateway.json"
RETURNED = (
    "ApprovalPage", "ApprovalResult", "ApprovalView", "ContinuationPart", "MeView", "Ready",
    "ToolCallsResponse", "ToolDetails",
    "ToolExport", "ToolHit", "ToolPage", "ToolsetHit", "ToolsetPage", "ToolsetView", "WaitingForApproval",
)  # fmt: skip
HEADER = '"""Models of responses, generated from the contract; `make client-models` writes them anew."""'
_REFERENCE = "#/components/schemas/"


def reduced(contract: dict[str, Any]) -> dict[str, Any]:
    """Return the contract without paths, with the schemas of RETURNED and those that they refer to."""
    schemas = contract["components"]["schemas"]
    names = set(RETURNED)
    waiting = list(RETURNED)
    while waiting:
        text = json.dumps(schemas[waiting.pop()])
        for name in re.findall(re.escape(_REFERENCE) + r'([^"/]+)"', text):
            if name not in names:
                names.add(name)
                waiting.append(name)
    kept = {name: _lenient(schemas[name]) for name in sorted(names)}
    return {
        "openapi": contract["openapi"],
        "info": contract["info"],
        "paths": {},
        "components": {"schemas": kept},
    }


def _lenient(schema: Any) -> Any:
    """Return it without what a later gateway may extend: values of enumerations, and limits."""
    if isinstance(schema, list):
        return [_lenient(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    dropped = {
        "examples",
        "example",
        "title",
        "pattern",
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "enum",
        "const",
    }
    kept = {}
    for name, value in schema.items():
        if name == "properties":
            kept[name] = {each: _lenient(part) for each, part in value.items()}
        elif name == "description":
            # One line, so that it does not matter how a formatter wraps it.
            kept[name] = " ".join(value.split())
        elif name not in dropped:
            kept[name] = _lenient(value)
    if "properties" in schema:
        kept["additionalProperties"] = True
    return kept


def write(target: Path) -> None:
    """Write the models to `target`."""
    generate(
        json.dumps(reduced(json.loads(CONTRACT.read_text()))),
        input_file_type=InputFileType.OpenAPI,
        output=target,
        output_model_type=DataModelType.PydanticV2BaseModel,
        target_python_version=PythonVersion.PY_311,
        use_standard_collections=True,
        use_union_operator=True,
        use_schema_description=True,
        use_field_description=True,
        use_annotated=False,
        use_double_quotes=True,
        disable_timestamp=True,
        output_datetime_class=DatetimeClassType.Datetime,
        custom_file_header=HEADER,
        formatters=[],
    )


if __name__ == "__main__":
    write(Path(sys.argv[1]))
