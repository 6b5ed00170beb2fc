"""The pages of the console, one module a resource, each with a `router`."""

from typing import Final

from app.console.page import PageRouter
from app.console.pages import (
    add_api,
    approvals,
    calls,
    changes,
    custom_tool,
    design,
    imports,
    key_creation,
    keys,
    language,
    not_found,
    overview,
    plugins,
    provider,
    provider_credentials,
    provider_settings,
    providers,
    sign_in,
    tool,
    tools,
    toolset_changes,
    toolsets,
)

PAGES: Final[tuple[PageRouter, ...]] = (
    add_api.router,
    approvals.router,
    calls.router,
    changes.router,
    custom_tool.router,
    design.router,
    imports.router,
    key_creation.router,
    keys.router,
    language.router,
    overview.router,
    plugins.router,
    provider.router,
    provider_credentials.router,
    provider_settings.router,
    providers.router,
    sign_in.router,
    tool.router,
    tools.router,
    toolset_changes.router,
    toolsets.router,
    # The last one, because it matches every path of the console.
    not_found.router,
)
