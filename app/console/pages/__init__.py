"""The pages of the console, one module a resource, each with a `router`."""

from typing import Final

from app.console.page import PageRouter
from app.console.pages import calls, design, language, not_found, overview

PAGES: Final[tuple[PageRouter, ...]] = (
    overview.router,
    calls.router,
    language.router,
    design.router,
    # The last one, because it matches every path of the console.
    not_found.router,
)
