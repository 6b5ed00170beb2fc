"""The pages of the console, one module a resource, each with a `router`."""

from typing import Final

from app.console.page import PageRouter
from app.console.pages import (
    calls,
    design,
    language,
    not_found,
    overview,
    palette,
    search_lab,
    sign_in,
    tools,
    toolset_changes,
    toolsets,
)

PAGES: Final[tuple[PageRouter, ...]] = (
    calls.router,
    design.router,
    language.router,
    overview.router,
    palette.router,
    search_lab.router,
    sign_in.router,
    tools.router,
    toolset_changes.router,
    toolsets.router,
    # The last one, because it matches every path of the console.
    not_found.router,
)
