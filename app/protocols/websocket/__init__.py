"""UTCP's `websocket`; needs the extra `websocket`."""
