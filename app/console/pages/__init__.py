"""The pages of the console, one module a resource, each with a `router`."""

from typing import Final

from app.console.page import PageRouter
from app.console.pages import add_api, custom_tool, design, imports, language, not_found

PAGES: Final[tuple[PageRouter, ...]] = (
    language.router,
    design.router,
    add_api.router,
    custom_tool.router,
    imports.router,
    # The last one, because it matches every path of the console.
    not_found.router,
)
