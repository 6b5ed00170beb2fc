"""Signing in and out, and presenting the key again before dangerous acts.

`SIGN_IN_METHODS` is the list of the ways to sign in by a form. Another way, such as OpenID Connect, gets an
entry there if it is a form; if it begins with a link, it gets routes of its own that end in
`signed_in_response`, and a link on the sign-in page.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Message

from app.access.authorise import PUBLIC
from app.console.local_urls import local_path
from app.console.page import PAGE_HEADERS, Page, PageRouter, check_charset, language_of, root_of
from app.console.templating import template
from app.dependencies import services_of
from app.errors import GatewayError, TooLarge
from app.sessions import NewSession, Session, Sessions
from app.sessions.cookie import delete_cookies, read_cookie, set_cookie
from app.sessions.site import check_same_origin, site_of

_MAX_FIELDS: Final = 10
_MAX_FIELD_BYTES: Final = 16 << 10
_MAX_BODY_BYTES: Final = 64 << 10

router = PageRouter()


@dataclass(frozen=True, slots=True)
class SignInMethod:
    """A way to sign in by a form: the name of the form's field, and what creates a session from its text and
    the client's address, or raises a GatewayError.
    """

    field: str
    sign_in: Callable[[Sessions, str, str], Awaitable[NewSession]]


async def _by_key(sessions: Sessions, text: str, host: str) -> NewSession:
    return await sessions.sign_in(text, host=host)


async def _by_link(sessions: Sessions, text: str, host: str) -> NewSession:
    return await sessions.sign_in_by_link(text, host=host)


SIGN_IN_METHODS: Final = (SignInMethod("sign_in_token", _by_link), SignInMethod("key", _by_key))


async def _show_sign_in(request: Request) -> Response:
    """Show the form for the key; over plain HTTP, say why there is none."""
    services = services_of(request)
    try:
        site_of(request.scope, services.settings)
    except GatewayError as error:
        return _sign_in_page(request, error=error, has_form=False)
    text = read_cookie(request.scope)
    session = await services.sessions.find(text) if text else None
    return _sign_in_page(request, session=session)


async def _sign_in(request: Request) -> Response:
    """Create a session by the field of the form that there is, and go on to the page that was asked for."""
    services = services_of(request)
    check_same_origin(request.scope, services.settings)
    check_charset(request)
    small = await _with_small_body(request)
    form = await small.form(max_files=0, max_fields=_MAX_FIELDS, max_part_size=_MAX_FIELD_BYTES)
    fields = {name: value for name, value in form.multi_items() if isinstance(value, str)}
    method = next((one for one in SIGN_IN_METHODS if fields.get(one.field)), SIGN_IN_METHODS[-1])
    try:
        text = fields.get(method.field, "").strip()
        session = await method.sign_in(services.sessions, text, _client_host(request))
    except GatewayError as error:
        return _sign_in_page(request, error=error, next_path=fields.get("next", ""))
    return await signed_in_response(request, session, next_path=fields.get("next", ""))


async def _with_small_body(request: Request) -> Request:
    """Return a request that anybody may send with its body read; raise TooLarge for one of over 64 KiB."""
    size = 0
    pieces: list[bytes] = []
    async for piece in request.stream():
        size += len(piece)
        if size > _MAX_BODY_BYTES:
            raise TooLarge(
                f"The form may have at most {_MAX_BODY_BYTES} bytes.", extra={"limit": _MAX_BODY_BYTES}
            )
        pieces.append(piece)

    async def receive() -> Message:
        return {"type": "http.request", "body": b"".join(pieces), "more_body": False}

    return Request(request.scope, receive)


async def signed_in_response(request: Request, session: NewSession, *, next_path: str) -> Response:
    """Set the cookie of a new session, end the one that the browser had, and go on to `next_path`; where that
    is no path of the console, to the page that says what the key may do.
    """
    services = services_of(request)
    before = read_cookie(request.scope)
    if before is not None:
        await services.sessions.end(before)
    root = root_of(request)
    target = local_path(next_path, root=root) or "/console/signed-in"
    response = RedirectResponse(root + target, 303, headers={"Cache-Control": "no-store"})
    response.headers["Set-Cookie"] = set_cookie(site_of(request.scope, services.settings), session)
    return response


async def _sign_out(request: Request) -> Response:
    """End the session of the cookie, and delete the cookie."""
    services = services_of(request)
    check_same_origin(request.scope, services.settings)
    text = read_cookie(request.scope)
    if text is not None:
        await services.sessions.end(text)
    response = RedirectResponse(
        f"{root_of(request)}/console/sign-in?signed_out=1", 303, headers={"Cache-Control": "no-store"}
    )
    for cookie in delete_cookies(request.scope):
        response.headers.append("Set-Cookie", cookie)
    return response


@router.get("/console/signed-in")
async def show_signed_in(page: Page) -> Response:
    """Say what the key of the session may do."""
    return page.render("signed_in.html", me=await page.api.get("/me"))


@router.get("/console/confirm")
async def show_confirm(page: Page) -> Response:
    """Ask for the key of the session once more."""
    return _confirm_page(page, page.query.get("next", ""))


@router.post("/console/confirm")
async def confirm(page: Page) -> Response:
    """Check the key of the session, and go on to the page that was asked for."""
    form = await page.form()
    key, next_path = str(form.get("key", "")).strip(), str(form.get("next", ""))
    text = read_cookie(page.request.scope)
    if page.session is not None and text is not None:
        try:
            await page.services.sessions.confirm(text, key, host=_client_host(page.request))
        except GatewayError as error:
            return _confirm_page(page, next_path, error=error)
    return page.redirect(local_path(next_path, root=page.root) or "/console")


async def require_recent(page: Page, *, next_path: str = "") -> Response | None:
    """Return None where the key of the session was presented within the last five minutes; otherwise the way
    to the form that asks for it, which then goes on to `next_path` (without ROOT_PATH), by default the URL of
    this page.

    For dangerous acts: the page with their form calls it, and so does the request that does them.
    """
    text = read_cookie(page.request.scope)
    if page.session is None or (text is not None and await page.services.sessions.is_recent(text)):
        return None
    return page.redirect("/console/confirm", {"next": next_path or page.url_with().removeprefix(page.root)})


def _confirm_page(page: Page, next_path: str, *, error: GatewayError | None = None) -> Response:
    return page.render(
        "confirm.html",
        status=200 if error is None else error.status,
        headers=_retry_after(error),
        error=error,
        next_path=local_path(next_path, root=page.root) or "",
    )


def _sign_in_page(
    request: Request,
    *,
    session: Session | None = None,
    error: GatewayError | None = None,
    has_form: bool = True,
    next_path: str | None = None,
) -> Response:
    root = root_of(request)
    target = request.query_params.get("next", "") if next_path is None else next_path
    html = template("sign_in.html", language_of(request)).render(
        root=root,
        session=session,
        error=error,
        has_form=has_form,
        is_signed_out="signed_out" in request.query_params,
        next_path=local_path(target, root=root) or "",
    )
    status = 200 if error is None else error.status
    return HTMLResponse(html, status, headers={**PAGE_HEADERS, **_retry_after(error)})


def _retry_after(error: GatewayError | None) -> dict[str, str]:
    found = {} if error is None else error.headers
    return {name: value for name, value in found.items() if name == "Retry-After"}


def _client_host(request: Request) -> str:
    return request.client.host if request.client else ""


def _public(handler: Any) -> Any:
    handler.scope = PUBLIC
    return handler


router.routes += [
    Route("/console/sign-in", _public(_show_sign_in), methods=["GET"], include_in_schema=False),
    Route("/console/sign-in", _public(_sign_in), methods=["POST"], include_in_schema=False),
    Route("/console/sign-out", _public(_sign_out), methods=["POST"], include_in_schema=False),
]
