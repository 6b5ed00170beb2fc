"""Run by the interpreter that has utcp_gateway_client: an executor of a gateway, whose URL and key are its arguments.

The third argument is a folder, in which a file of the name of a command says that it has started or was cancelled.
"""

import asyncio
import sys
from pathlib import Path

from utcp_gateway_client.serving import serve
from utcp_gateway_client.tools import ToolError, report_progress, tool

FOLDER = Path(sys.argv[3])


@tool
def get_order_status(order_id: int) -> str:
    """Return the status of an order.

    :param order_id: The number of the order
    """
    if order_id < 0:
        raise ToolError(f"There is no order {order_id}.")
    return "Shipped" if order_id == 123 else "Unknown"


@tool
async def pack(name: str) -> str:
    """Pack an order until the file NAME.go is there."""
    (FOLDER / f"{name}.started").touch()
    report_progress(1, 2, "half is packed")
    try:
        while not (FOLDER / f"{name}.go").exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.02)
    except asyncio.CancelledError:
        (FOLDER / f"{name}.cancelled").touch()
        raise
    return "packed"


@tool
def label() -> bytes:
    return b"\x89PNG\x00\xff"


serve([get_order_status, pack, label], gateway=sys.argv[1], key=sys.argv[2], name="orders").run()
