"""Database Query Bot: executes the tool get_order_status for a gateway, by a query of a database."""

import os
import sqlite3

from utcp_gateway_client.serving import serve
from utcp_gateway_client.tools import ToolError

# Functions that are not async run in threads.
database = sqlite3.connect(":memory:", check_same_thread=False)
database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, status TEXT NOT NULL)")
database.executemany("INSERT INTO orders VALUES (?, ?)", [(122, "Packed"), (123, "Shipped")])


def get_order_status(order_id: int) -> str:
    """Return the status of an order.

    Args:
        order_id: The number of the order
    """
    row = database.execute("SELECT status FROM orders WHERE id = ?", (order_id,)).fetchone()
    if row is None:
        raise ToolError(f"There is no order {order_id}.")
    return str(row[0])


if __name__ == "__main__":
    # Registers the tool as `orders.get_order_status`, and executes commands until SIGINT or SIGTERM.
    serve(
        [get_order_status],
        gateway=os.environ["UTCP_GATEWAY_URL"],
        key=os.environ["UTCP_GATEWAY_KEY"],
        name="orders",
    ).run()
