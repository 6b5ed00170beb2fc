"""`/session`: sessions of the web console, for browsers. Programs need none: they send their key."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Request, Response
from starlette.requests import HTTPConnection

from app.access.authorise import presented_key
from app.access.sessions.cookie import delete_cookies, read_cookie, set_cookie
from app.access.sessions.model import LINK_SECONDS
from app.access.sessions.site import check_same_origin, site_of, site_url
from app.api.authorisation import Requires, public_route
from app.api.dependencies import UsesServices, location_of
from app.api.session.schemas import SessionCreated, SignInLink
from app.core.errors import Forbidden, Unauthenticated
from app.core.schemas import location_header, problem_responses
from app.security.principal import Principal
from app.services import Services
from app.storage.models import now

router = APIRouter(tags=["keys"])
_NO_STORE: Final = {"Cache-Control": "no-store"}
_COOKIE_HEADER: Final[dict[str, Any]] = {
    "Set-Cookie": {"schema": {"type": "string"}, "description": "The cookie of the session."}
}


class _SignIn(Requires):
    """Requires any valid key, and has an invalid one recorded as a failed sign-in."""

    async def __call__(self, connection: HTTPConnection) -> Principal:
        try:
            return await super().__call__(connection)
        except Unauthenticated:
            if presented_key(connection.scope["headers"]) is not None:
                services: Services = connection.state.services
                await services.sessions.report_failure(_client_host(connection))
            raise


SigningIn = Annotated[Principal, Depends(_SignIn(None))]
MakesLinks = Annotated[Principal, Depends(Requires(None, recent=True))]


@router.post(
    "/session",
    operation_id="createSession",
    summary="Sign in to the web console",
    status_code=201,
    responses={
        201: {"headers": {**location_header("Path of the session."), **_COOKIE_HEADER}},
        **problem_responses(429),
    },
)
async def create_session(
    request: Request, response: Response, principal: SigningIn, services: UsesServices
) -> SessionCreated:
    """Begin a session with the rights of the API key of the request, and set its cookie: for the web console
    only, the other operations take no cookie. It ends with the key.

    Any valid API key may sign in; an access token of an issuer may not. Over plain HTTP it is rejected, but
    for a browser on the gateway's own machine.
    """
    _require_console(services)
    site = site_of(request.scope, services.settings)
    session = await services.sessions.create(principal)
    response.headers.update(_NO_STORE)
    response.headers["Location"] = location_of(request, "session")
    response.headers["Set-Cookie"] = set_cookie(site, session)
    return SessionCreated(key_id=principal.key_id, expires_at=session.expires_at)


@router.delete(
    "/session",
    operation_id="deleteSession",
    summary="Sign out of the web console",
    status_code=204,
    dependencies=[Depends(public_route)],
    responses={
        204: {"headers": _COOKIE_HEADER},
        **{status: one for status, one in problem_responses().items() if status != 401},
    },
)
async def delete_session(request: Request, response: Response, services: UsesServices) -> None:
    """End the session of the request's cookie, and delete the cookie. Without a session, nothing is done.

    No key is needed. A request with the cookie that no page of the gateway has sent is rejected.
    """
    response.headers.update(_NO_STORE)
    cookies = delete_cookies(request.scope)
    if not cookies:
        return
    check_same_origin(request.scope, services.settings)
    text = read_cookie(request.scope)
    if text is not None:
        await services.sessions.end(text)
    for cookie in cookies:
        response.headers.append("Set-Cookie", cookie)


@router.post(
    "/session/link",
    operation_id="createSignInLink",
    summary="Create a sign-in link",
    responses=problem_responses(429),
)
async def create_sign_in_link(
    request: Request, response: Response, principal: MakesLinks, services: UsesServices
) -> SignInLink:
    """Create a link that signs a browser in to the web console with the rights of the API key of the request:
    once, within 60 seconds. Whoever has the link can use it.

    The link begins with PUBLIC_BASE_URL; without it, with the address of the request. It is rejected where
    that is plain HTTP, but for an address of the gateway's own machine.
    """
    _require_console(services)
    base = site_url(request.scope, services.settings)
    if principal.token is not None:
        raise Forbidden(
            "Only an API key can sign in, no access token.", hint="Use an API key of the gateway."
        )
    response.headers.update(_NO_STORE)
    token = await services.sessions.create_sign_in_token(principal.key_id, principal.tenant_id)
    return SignInLink.of(f"{base}/console/sign-in#{token}", at=now(), seconds=LINK_SECONDS)


def _require_console(services: Services) -> None:
    if not services.settings.console:
        raise Forbidden("The web console is switched off.", hint="Operators: set CONSOLE to true.")


def _client_host(connection: HTTPConnection) -> str:
    client = connection.scope.get("client")
    return client[0] if client else ""
