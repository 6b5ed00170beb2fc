"""`create_app()`: the application over its services and edges."""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

from app.server.gc_tuning import pause_collection

with pause_collection():
    import structlog
    from fastapi import Depends, FastAPI
    from starlette.middleware import Middleware

    from app import console
    from app.agents import call as agent_calls
    from app.agents import mcp, tool_calls, ubp, utcp
    from app.agents import tests as agent_tests
    from app.api import (
        approvals,
        calls,
        events,
        explain,
        exports,
        keys,
        me,
        plugins,
        providers,
        recordings,
        search,
        session,
        stats,
        tools,
        toolsets,
    )
    from app.api.streams.cross_origin import ALLOWED_HEADERS, EXPOSED_HEADERS
    from app.core.errors import GatewayError, Overloaded
    from app.core.settings import Settings
    from app.core.telemetry.metrics import Metrics
    from app.providers.registration.batch import import_file
    from app.server import (
        deprecation_headers,
        docs_page,
        gc_tuning,
        health,
        metrics_collectors,
        openapi_document,
        query_parameters,
        reference_pages,
        support,
    )
    from app.server.admission import Admission
    from app.server.call_route import FastRoute, FastRoutes, GatewayApp
    from app.server.connections import ConnectionTable, ServerLimits
    from app.server.cors import McpCorsMiddleware
    from app.server.head_requests import HeadRequests
    from app.server.key_expiry import HEADER as KEY_EXPIRY
    from app.server.key_expiry import KeyExpiryHeader
    from app.server.middleware import AllowedHosts, BodyLimit, RequestMetrics
    from app.server.problems import (
        UnhandledErrorMiddleware,
        build_error_response,
        build_problem_response,
        log_truncated_response,
    )
    from app.server.problems import install as install_problems
    from app.server.websocket_protocol import PATHS_STATE
    from app.services import Services, open_services

log = structlog.get_logger(__name__)

OpenServices = Callable[[Settings, Metrics], AbstractAsyncContextManager[Services]]


class Edge(Protocol):
    """A package that serves a part of the API; edges do not import each other."""

    def install(self, app: FastAPI) -> None:
        """Add its routes, which find the services in `request.state.services`."""


EDGES: Final[tuple[Edge, ...]] = (
    agent_calls,
    # Their fixed paths come before the paths of `tools` with a name.
    exports,
    search,
    tools,
    calls,
    stats,
    providers,
    utcp,
    keys,
    me,
    session,
    events,
    explain,
    approvals,
    toolsets,
    recordings,
    plugins,
    mcp,
    tool_calls,
    ubp,
    agent_tests,
    health,
    reference_pages,
    support,
    console,
)

FAST_ROUTES: Final = (
    FastRoute(agent_calls.CALL_ROUTE),
    FastRoute(agent_calls.TOOLSET_CALL_ROUTE),
    # Clients of MCP try GET; its endpoint rejects it after the checks that precede the method.
    *(FastRoute(route, ("POST", "GET", "DELETE", "OPTIONS"), takes_slash=True) for route in mcp.FAST_ROUTES),
    FastRoute(tool_calls.TOOL_CALLS_ROUTE),
    FastRoute(tool_calls.TOOLSET_TOOL_CALLS_ROUTE),
)
"""The routes that are served ahead of FastAPI; each is also added by its edge."""

LARGE_BODY_PATHS = ("/providers", "/import", "/plugins", "/recordings", "/console/add")


async def _import_providers(path: Path, services: Services) -> None:
    """Import PROVIDERS_FILE in the background: an upstream that does not respond must not delay the start."""
    try:
        await import_file(path, registry=services.registration)
    except (OSError, GatewayError) as error:
        reason = error.detail if isinstance(error, GatewayError) else error.strerror
        log.warning("the providers file cannot be used", file=str(path), reason=reason)


async def _keep_requirements(services: Services) -> None:
    """Keep the requirements of approval of before an upgrade; the next change keeps them, too."""
    try:
        await services.approval_requirements.keep_existing()
    except GatewayError as error:
        log.warning("requirements of approval are not kept yet", reason=error.detail)


@contextmanager
def _start_failure(app: FastAPI) -> Iterator[None]:
    """Store the reason of a failed start, such as a missing sealing key, for one line in the log."""
    try:
        yield
    except GatewayError as error:
        if isinstance(app, GatewayApp):
            app.start_failure = f"The gateway cannot start: {error.detail}"
        raise


def lifespan(
    settings: Settings, metrics: Metrics, admission: Admission, open_services: OpenServices
) -> Callable[[FastAPI], AbstractAsyncContextManager[dict[str, Any]]]:
    """Return the lifespan of an application with these settings.

    It puts into `request.state` the `services` that all edges share, the `manuals` and `toolset_manuals` of
    discovery, the servers `mcp` and `ubp`, the running `agent_tests`, the paths of WebSockets, the `probes`
    of health, and the `connections` of clients, which the HTTP server counts and bounds.
    """

    @asynccontextmanager
    async def run(app: FastAPI) -> AsyncIterator[dict[str, Any]]:
        async with AsyncExitStack() as stack:
            with _start_failure(app):
                services = await stack.enter_async_context(open_services(settings, metrics))
            connections = ConnectionTable(ServerLimits.from_settings(settings))
            stack.callback(metrics_collectors.start_collecting(services, admission, connections))
            admission.unverified = lambda: services.keys.unverified_calls
            gc_tuning.freeze_startup_objects()
            admission.start()
            stack.callback(admission.stop)
            executors = await stack.enter_async_context(ubp.open_server(services))
            with _start_failure(app):
                await stack.enter_async_context(ubp.serve_grpc(executors))
            running_tests = await stack.enter_async_context(agent_tests.open_runs(services))
            services.readiness.open = True
            services.converter.spawn(_keep_requirements(services))
            if settings.providers_file is not None:
                services.converter.spawn(_import_providers(settings.providers_file, services))
            yield {
                "services": services,
                "manuals": utcp.open_manuals(services),
                "mcp": mcp.open_server(services),
                "ubp": executors,
                "agent_tests": running_tests,
                PATHS_STATE: frozenset({ubp.PATH}),
                "toolset_manuals": utcp.open_toolset_manuals(services),
                "probes": health.HealthProbes(services.database, services.redis),
                "connections": connections,
            }
            services.readiness.open = False
            services.stopping.set()

    return run


def _middleware(settings: Settings, metrics: Metrics) -> list[Middleware]:
    """Return the middleware of every route, the outermost first."""
    middleware = [
        Middleware(RequestMetrics, metrics=metrics),
        Middleware(KeyExpiryHeader),
        Middleware(
            BodyLimit,
            small_bytes=settings.max_request_bytes,
            large_bytes=settings.max_document_bytes,
            large=LARGE_BODY_PATHS,
        ),
        Middleware(HeadRequests),
    ]
    if settings.cors_origins:
        middleware.insert(
            0,
            Middleware(
                McpCorsMiddleware,
                allow_origins=settings.cors_origins,
                allow_methods=["*"],
                allow_headers=ALLOWED_HEADERS,
                expose_headers=(KEY_EXPIRY, *EXPOSED_HEADERS),
            ),
        )
    if settings.allowed_hosts != ("*",):
        middleware.insert(0, Middleware(AllowedHosts, patterns=settings.allowed_hosts))
    return middleware


def _replaced_middleware() -> frozenset[Any]:
    """Return the middleware whose work the fast routes do, or which has none to do for them."""
    replaced = {UnhandledErrorMiddleware, RequestMetrics, KeyExpiryHeader, BodyLimit, HeadRequests}
    if all(deprecation_headers.get_route_deprecation(fast.route) is None for fast in FAST_ROUTES):
        replaced.add(deprecation_headers.DeprecationHeaders)
    return frozenset(replaced)


def create_app(
    settings: Settings | None = None,
    *,
    edges: Sequence[Edge] = EDGES,
    open_services: OpenServices = open_services,
) -> FastAPI:
    """Return the gateway as an ASGI application of these edges; without `settings` they are read from the
    environment. `open_services` opens what the edges share.
    """
    settings = settings or Settings()
    metrics = Metrics()
    admission = Admission(max_running=settings.max_calls, max_lag=settings.overload_max_lag)
    query_check = query_parameters.QueryCheck()
    app = GatewayApp(
        title="utcp-gateway",
        version=openapi_document.VERSION,
        description=openapi_document.DESCRIPTION,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        root_path=settings.root_path,
        middleware=_middleware(settings, metrics),
        lifespan=lifespan(settings, metrics, admission, open_services),
        redirect_slashes=False,
        dependencies=[Depends(query_check)],
    )
    install_problems(app)
    for edge in edges:
        if edge is not console or settings.console:
            edge.install(app)
    docs_page.install(app, is_open=settings.docs_public)
    query_parameters.install(app, query_check)
    deprecation_headers.install(app)
    openapi_document.install(app, settings)
    app.admission = admission
    app.fast_routes = FastRoutes(
        FAST_ROUTES,
        metrics=metrics,
        body_bytes=settings.max_request_bytes,
        overloaded=build_problem_response(
            Overloaded("The gateway has more calls than it can serve in time; try again.")
        ),
        respond=build_error_response,
        log_truncated=log_truncated_response,
        replaces=_replaced_middleware(),
    )
    return app
