"""The schemas of the API's requests, from its own OpenAPI document, as forms show them."""

import asyncio
from collections.abc import Mapping
from typing import Any

from app.console.http.page import Page

Json = dict[str, Any]


async def api_components(page: Page) -> Json:
    """Return the components of the API's OpenAPI document, by name."""
    # In a thread: its first reader builds the document, which takes half a second.
    document: Json = await asyncio.to_thread(page.request.app.openapi)
    components: Json = document["components"]["schemas"]
    return components


def without_null(member: Mapping[str, Any]) -> Json:
    """Return a member's schema without null as an alternative, and without its title: an empty field leaves
    the member out.
    """
    alternatives = [one for one in member.get("anyOf", ()) if one.get("type") != "null"]
    if len(alternatives) == 1:
        member = {**{key: value for key, value in member.items() if key != "anyOf"}, **alternatives[0]}
    left_out = {"title", "default"} if member.get("default", "") is None else {"title"}
    return {key: value for key, value in member.items() if key not in left_out}


def is_secret(member: Mapping[str, Any]) -> bool:
    """Return whether the API accepts a member and never returns it."""
    return member.get("writeOnly") is True or any(is_secret(one) for one in member.get("anyOf", ()))
