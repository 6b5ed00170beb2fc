"""The Model Context Protocol by its official SDK, over the engine and programs that the operator lists."""

import logging

try:
    import mcp
except ImportError:
    AVAILABLE = False
else:
    AVAILABLE = bool(mcp)

# They write whole messages, addresses with their queries, and what libraries say of them.
for _name in ("mcp", "client"):
    logging.getLogger(_name).setLevel(logging.CRITICAL + 1)

__all__ = ["AVAILABLE"]
