"""Which destinations of a registration the address guard blocks: the address, and the setting that allows it.

Whoever reads this learns where a host name leads inside the gateway's network. So it is part of responses to
keys with `providers:write` only, and is not stored.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from app.core.errors import BlockedAddress
from app.openapi.report import SourceWarning
from app.outbound.destinations import denied_destination
from app.outbound.egress import EgressSettings
from app.outbound.guard import DeniedAddress
from app.outbound.network import Network

MAX_ORIGINS: Final = 20
MAX_SECONDS: Final = 1.0


async def warn_of_blocked_destinations(
    origins: Iterable[str], *, network: Network, egress: EgressSettings | None
) -> tuple[SourceWarning, ...]:
    """Return a warning for each of the first 20 origins that the address guard blocks at present.

    Looking up their names takes at most a second; what is not known by then is not warned of.
    """
    checked = list(dict.fromkeys(origins))[:MAX_ORIGINS]
    looked_up = [asyncio.create_task(denied_destination(origin, network, egress)) for origin in checked]
    if not looked_up:
        return ()
    try:
        await asyncio.wait(looked_up, timeout=MAX_SECONDS)
    finally:
        for task in looked_up:
            task.cancel()
        results = await asyncio.gather(*looked_up, return_exceptions=True)
    return tuple(
        SourceWarning(f"Calls to {origin} are blocked: {_explain_block(denied)}")
        for origin, denied in zip(checked, results, strict=True)
        if isinstance(denied, DeniedAddress)
    )


async def explained(
    error: BlockedAddress, origin: str, *, network: Network, egress: EgressSettings | None
) -> BlockedAddress:
    """Return the error for a source that the address guard blocks, with its address and the setting."""
    denied = await denied_destination(origin, network, egress)
    if denied is None:
        return error
    return BlockedAddress(f"The source at {origin} cannot be fetched: {_explain_block(denied)}")


def _explain_block(denied: DeniedAddress) -> str:
    where = f"the network policy of the gateway does not allow {denied.place}."
    return f"{where} Its operator can allow it with {denied.setting}={denied.entry}."
