"""UTCP 0.x's `webrtc`; needs the extra `webrtc`."""
