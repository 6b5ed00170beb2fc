"""Which repairs the arguments of a call get, once they have turned out not to be valid."""

from collections.abc import Mapping
from typing import Any, Final

from app.calls.log.entries import Interface
from app.calls.request import CallRequest
from app.catalog.plan import Plan
from app.formats.json_schema.repair import Repaired
from app.security.principal import RepairMode

_BY_INTERFACE: Final[Mapping[Interface, RepairMode]] = {
    "mcp": "safe",
    "tool-calls": "safe",
    "agent-test": "safe",
}


def repair_mode(request: CallRequest) -> RepairMode:
    """Return the mode of a call: what the client asks for, else its key's, the toolset's, the interface's."""
    return (
        request.options.repair
        or request.principal.argument_repair
        or request.argument_repair
        or _BY_INTERFACE.get(request.interface, "off")
    )


def repair_arguments(plan: Plan, arguments: Any, mode: RepairMode) -> Repaired | None:
    """Return arguments that are not valid, repaired as the mode allows; None where that is not possible."""
    if mode == "off":
        return plan.repair(arguments, scope="rules")
    return plan.repair(arguments, scope="types" if mode == "safe" and not plan.read_only else "all")
