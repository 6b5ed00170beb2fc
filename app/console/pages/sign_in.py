"""Signing in and out, and presenting the key again, or a link of it, before dangerous acts.

`SIGN_IN_METHODS` is the list of the ways to sign in by a form. Another way, such as OpenID Connect, gets an
entry there if it is a form; if it begins with a link, it gets routes of its own that end in
`signed_in_response`, and a link on the sign-in page.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from app.access.authorise import PUBLIC
from app.access.sessions import NewSession, Sessions
from app.access.sessions.cookie import delete_cookies, read_cookie, set_cookie
from app.access.sessions.site import check_same_origin, site_of
from app.api.dependencies import services_of
from app.console.forms.confirmation import confirm_session, confirmation_page, remembered_path, retry_after
from app.console.forms.kept_forms import FORM_FIELD
from app.console.forms.submitted_form import check_charset
from app.console.http.local_urls import local_path
from app.console.http.page import Page, root_of
from app.console.http.page_router import PageRouter
from app.console.http.sign_in_page import continue_page, form_limit, sign_in_page, with_bounded_body
from app.core.errors import BadRequest, GatewayError

_MAX_FIELDS: Final = 10

router = PageRouter()


@dataclass(frozen=True, slots=True)
class SignInMethod:
    """A way to sign in by a form: the name of the form's field, and what creates a session from its text, the
    client's address and the text of the session that the browser has, or raises a GatewayError; it returns
    None where it has confirmed that session in place of creating one.
    """

    field: str
    sign_in: Callable[[Sessions, str, str, str | None], Awaitable[NewSession | None]]


async def _sign_in_by_key(sessions: Sessions, text: str, host: str, _before: str | None) -> NewSession:
    return await sessions.sign_in(text, host=host)


async def _sign_in_by_link(sessions: Sessions, text: str, host: str, before: str | None) -> NewSession | None:
    if before is None:
        return await sessions.sign_in_by_link(text, host=host)
    return await sessions.confirm_or_sign_in_by_link(before, text, host=host)


SIGN_IN_METHODS: Final = (
    SignInMethod("sign_in_token", _sign_in_by_link),
    SignInMethod("key", _sign_in_by_key),
)


async def _show_sign_in(request: Request) -> Response:
    """Show the form for the key; over plain HTTP, say why there is none."""
    services = services_of(request)
    try:
        site_of(request.scope, services.settings)
    except GatewayError as error:
        return sign_in_page(request, error=error, has_form=False, headers=retry_after(error))
    text = read_cookie(request.scope)
    session = await services.sessions.find(text) if text else None
    return sign_in_page(request, session=session)


async def _sign_in(request: Request) -> Response:
    """Create a session by the field of the form that there is, and go on to the page that was asked for."""
    services = services_of(request)
    check_same_origin(request.scope, services.settings)
    check_charset(request)
    limit = form_limit(request)
    bounded = await with_bounded_body(request, limit)
    form = await bounded.form(max_files=0, max_fields=_MAX_FIELDS, max_part_size=limit)
    fields = {name: value for name, value in form.multi_items() if isinstance(value, str)}
    kept, next_path = fields.get(FORM_FIELD, ""), fields.get("next", "")
    method = next((one for one in SIGN_IN_METHODS if fields.get(one.field)), SIGN_IN_METHODS[-1])
    text, before = fields.get(method.field, "").strip(), read_cookie(request.scope)
    if kept and not text and before is not None and await services.sessions.find(before):
        # A link was opened in another tab.
        path = root_of(request) + (local_path(next_path, root=root_of(request)) or "/console")
        return await _with_form(request, _redirect(path), kept, session=before, next_path=next_path)
    try:
        session = await method.sign_in(services.sessions, text, _get_client_host(request), before)
    except GatewayError as error:
        return sign_in_page(request, error=error, next_path=next_path, kept=kept, headers=retry_after(error))
    if session is None:
        response: Response = _redirect(f"{root_of(request)}/console/confirmed")
    else:
        response = await signed_in_response(request, session, next_path=next_path)
    if not kept:
        return response
    current = before or "" if session is None else session.text.reveal()
    return await _with_form(request, response, kept, session=current, next_path=next_path)


async def _with_form(
    request: Request, response: Response, kept: str, *, session: str, next_path: str
) -> Response:
    """Return the page that goes on with a kept form in a session, in place of another response; that response
    where the form cannot be opened.
    """
    known = await services_of(request).sessions.find(session)
    if known is None:
        return response
    try:
        page = await continue_page(request, kept, key_id=known.key_id, next_path=next_path)
    except BadRequest:
        return response
    if "set-cookie" in response.headers:
        page.headers["Set-Cookie"] = response.headers["Set-Cookie"]
    return page


def _redirect(path: str) -> Response:
    return RedirectResponse(path, 303, headers={"Cache-Control": "no-store"})


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
    response = _redirect(root + target)
    response.headers["Set-Cookie"] = set_cookie(site_of(request.scope, services.settings), session)
    return response


async def _sign_out(request: Request) -> Response:
    """End the session of the cookie, and delete the cookie."""
    services = services_of(request)
    check_same_origin(request.scope, services.settings)
    text = read_cookie(request.scope)
    if text is not None:
        await services.sessions.end(text)
    response = _redirect(f"{root_of(request)}/console/sign-in?signed_out=1")
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
    return confirmation_page(page, page.query.get("next", ""))


@router.post("/console/confirm", recent=False)
async def confirm(page: Page) -> Response:
    """Check the key of the session, or a link of it, and go on to the page that was asked for."""
    form = await page.form()
    proof, next_path = str(form.get("key", "")).strip(), str(form.get("next", ""))
    # Without one, the session may have been confirmed meanwhile, by a link in another tab.
    if proof or not await page.is_recent():
        try:
            await confirm_session(page, proof)
        except GatewayError as error:
            return confirmation_page(page, next_path, error=error, status=error.status)
    return page.redirect(local_path(next_path, root=page.root) or "/console")


@router.get("/console/confirmed")
async def show_confirmed(page: Page) -> Response:
    """Say that a sign-in link has confirmed the session, and where to go on."""
    path = remembered_path(page.request, root=page.root)
    return page.render("confirmed.html", next_path=path, is_recent=await page.is_recent())


def _get_client_host(request: Request) -> str:
    return request.client.host if request.client else ""


def _make_public(handler: Any) -> Any:
    handler.scope = PUBLIC
    handler.recent = False
    return handler


router.routes += [
    Route("/console/sign-in", _make_public(_show_sign_in), methods=["GET"], include_in_schema=False),
    Route("/console/sign-in", _make_public(_sign_in), methods=["POST"], include_in_schema=False),
    Route("/console/sign-out", _make_public(_sign_out), methods=["POST"], include_in_schema=False),
]
