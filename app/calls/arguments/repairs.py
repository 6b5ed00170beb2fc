"""Which repairs the arguments of a call get, once they have turned out not to be valid."""

import re
from collections.abc import Mapping
from typing import Any, Final

from app.calls.log.entries import Interface
from app.calls.request import CallRequest
from app.catalog.plan import Plan
from app.formats.json_schema.repair import Repaired
from app.security.principal import REPAIR_MODES, RepairMode

_BY_INTERFACE: Final[Mapping[Interface, RepairMode]] = {
    "mcp": "safe",
    "tool-calls": "safe",
    "agent-test": "safe",
}
_PREFERENCE: Final = re.compile(r'\s*repair\s*=\s*"?(off|safe|on)"?\s*(?:;.*)?', re.IGNORECASE)


def repair_mode(request: CallRequest) -> RepairMode:
    """Return the mode of a call: what the client asks for, else its key's, the toolset's, the interface's."""
    return (
        request.repair_preference
        or request.principal.argument_repair
        or request.argument_repair
        or _BY_INTERFACE.get(request.interface, "off")
    )


def parse_repair_preference(prefer: str) -> RepairMode | None:
    """Return the mode in a header Prefer (RFC 7240), e.g. `repair=safe`; None where it has none."""
    for item in prefer.split(","):
        match = _PREFERENCE.fullmatch(item)
        if match is not None:
            return REPAIR_MODES[match[1].lower()]
    return None


def repair_arguments(plan: Plan, arguments: Any, mode: RepairMode) -> Repaired | None:
    """Return arguments that are not valid, repaired as the mode allows; None where that is not possible."""
    if mode == "off":
        return plan.repair(arguments, scope="rules")
    return plan.repair(arguments, scope="types" if mode == "safe" and not plan.read_only else "all")
