"""The pages of the console, one module a resource, each with a `router`."""

from typing import Final

from app.console.page import PageRouter
from app.console.pages import (
    approvals,
    calls,
    changes,
    design,
    key_creation,
    keys,
    language,
    not_found,
    overview,
    settings,
    sign_in,
)

PAGES: Final[tuple[PageRouter, ...]] = (
    approvals.router,
    calls.router,
    changes.router,
    design.router,
    key_creation.router,
    keys.router,
    language.router,
    overview.router,
    settings.router,
    sign_in.router,
    # The last one, because it matches every path of the console.
    not_found.router,
)
