"""UTCP's `websocket`."""

from app.protocols.websocket.adapter import WebsocketAdapter

__all__ = ["WebsocketAdapter"]
