"""UTCP's `webrtc`."""

from app.protocols.webrtc.adapter import WebrtcAdapter

__all__ = ["WebrtcAdapter"]
