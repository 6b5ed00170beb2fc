"""The HTTP resource `/utcp`: manuals for UTCP clients, rendered ahead of requests."""

from app.discovery.manuals import Manuals
from app.discovery.routes import router

__all__ = ["Manuals", "router"]
