"""UTCP 0.x's `webrtc` for utcp-gateway, which finds it by an entry point."""
