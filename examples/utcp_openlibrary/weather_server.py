"""An API that serves a UTCP manual of its own at /utcp."""

from typing import Any

from fastapi import FastAPI, Request

app = FastAPI()


@app.get("/utcp")
def utcp_discovery(request: Request) -> dict[str, Any]:
    """Return the manual, in the form of UTCP 0.x."""
    return {
        "version": "1.0",
        "tools": [
            {
                "name": "get_weather",
                "description": "Get current weather for a location",
                "inputs": {"type": "object", "properties": {"location": {"type": "string"}}},
                "outputs": {"type": "object", "properties": {"temperature": {"type": "number"}}},
                "tool_provider": {
                    "provider_type": "http",
                    "url": f"{request.base_url}api/weather",
                    "http_method": "GET",
                },
            }
        ],
    }


@app.get("/api/weather")
def get_weather(location: str) -> dict[str, Any]:
    """Return the weather, which is the same everywhere."""
    return {"temperature": 22.5, "conditions": "Sunny"}
