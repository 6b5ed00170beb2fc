"""UTCP's `tcp`."""

from app.protocols.tcp.adapter import TcpAdapter

__all__ = ["TcpAdapter"]
