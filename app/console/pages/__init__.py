"""The pages of the console, one module a resource, each with a `router`."""

from typing import Final

from app.console.page import PageRouter
from app.console.pages import design, language, not_found, tools

PAGES: Final[tuple[PageRouter, ...]] = (
    language.router,
    design.router,
    tools.router,
    # The last one, because it matches every path of the console.
    not_found.router,
)
