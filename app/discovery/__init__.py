"""Discovery for UTCP clients: manuals as prepared bytes."""

from app.discovery.manuals import Manuals
from app.discovery.routes import router

__all__ = ["Manuals", "router"]
