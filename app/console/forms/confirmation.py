"""Step-up: before a dangerous act, a session presents its key once more, or a new sign-in link of the key.

A route declares it (`recent=True`), and no page knows of it. The form that was submitted is sealed for its
key and path and stands in the confirmation page as a hidden field, so that nothing typed is lost, and the
page has no secret of the form. The confirmation goes to the same route, which then handles that form.

    POST /console/keys/new --> 403, the confirmation page --> POST /console/keys/new, with the key --> handler

What the API declares in this way holds besides: a page that reaches such an operation without having declared
it gets `ConfirmationRequired`, and the same confirmation page follows.
"""

from collections.abc import Mapping
from typing import Final

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response

from app.access.sessions.cookie import read_cookie
from app.console.forms.kept_forms import FORM_FIELD, is_kept, open_form, seal_form
from app.console.http.local_urls import local_path
from app.console.http.page import SAFE_METHODS, Page, origin_path
from app.core.errors import GatewayError

CONFIRM_PATH: Final = "/console/confirm"
PROOF_FIELD: Final = "confirm.key"
"""The field with the key or the link. No page has a field of this name."""
_NEXT_COOKIE: Final = "utcp-console-next"
_NEXT_SECONDS: Final = 600


async def confirm_form(page: Page) -> FormData | Response | None:
    """Return the form to handle, None for a request without one: the submitted one, or, with a confirmation,
    the one before it. Return the response that asks for the key where it was presented more than five minutes
    ago.

    Raise BadRequest for a sealed form that is damaged, or of another key or page.
    """
    if page.request.method in SAFE_METHODS:
        return None if await page.is_recent() else await ask(page)
    form = await page.form()
    sealed = str(form.get(FORM_FIELD, ""))
    if not await page.is_recent():
        proof = str(form.get(PROOF_FIELD, "")).strip()
        if not sealed or not proof:
            return await ask(page)
        try:
            await confirm_session(page, proof)
        except GatewayError as error:
            return await ask(page, error=error)
    if not sealed:
        return form
    kept, _ = await open_form(sealed, page.services.vault, owner=_identify_owner(page))
    if is_kept(kept):
        # The session had ended when the confirmation was sent.
        kept, _ = await open_form(str(kept[FORM_FIELD]), page.services.vault, owner=_identify_owner(page))
    return kept


async def confirm_session(page: Page, proof: str) -> None:
    """Set that the key of the page's session was presented now, by that key or a sign-in link of it.

    Raise as `Sessions.confirm` does.
    """
    text = read_cookie(page.request.scope)
    if page.session is not None and text is not None:
        client = page.request.client
        await page.services.sessions.confirm(text, proof, host=client.host if client else "")


async def ask(page: Page, *, error: GatewayError | None = None) -> Response:
    """Return the response that asks for the key: a page that keeps the submitted form, or the way to one that
    goes on to the page of the URL.
    """
    if page.request.method in SAFE_METHODS:
        return page.redirect(CONFIRM_PATH, {"next": page.url_with().removeprefix(page.root)})
    form = await page.form()
    sealed = str(form.get(FORM_FIELD, ""))
    # The form of a confirmation page comes from that page itself.
    origin = remembered_path(page.request, root=page.root) if sealed else origin_path(page.request)
    if not sealed:
        sealed = await seal_form(form, page.services.vault, owner=_identify_owner(page)) or ""
        if not sealed:
            return page.redirect(CONFIRM_PATH, {"next": origin})
    status = 403 if error is None else error.status
    return confirmation_page(page, origin, target=page.url_with(), form=sealed, error=error, status=status)


def confirmation_page(
    page: Page,
    next_path: str,
    *,
    target: str = "",
    form: str = "",
    error: GatewayError | None = None,
    status: int = 200,
) -> Response:
    """Return the page that asks for the key: with a sealed form for `target`, or going on to `next_path`."""
    path = local_path(next_path, root=page.root) or ""
    response = page.render(
        "confirm.html",
        status=status,
        headers=retry_after(error),
        error=error,
        next_path=path,
        target=target or page.root + CONFIRM_PATH,
        proof_field=PROOF_FIELD if form else "key",
        form_field=FORM_FIELD if form else "next",
        form=form or path,
        is_kept=bool(form),
    )
    # A sign-in link is opened in another tab, which knows nothing of this page.
    response.set_cookie(
        _NEXT_COOKIE,
        path or "/console",
        max_age=_NEXT_SECONDS,
        path=f"{page.root}/console",
        secure=page.request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )
    return response


def remembered_path(request: Request, *, root: str) -> str:
    """Return the path of the console for which the key was asked last, without ROOT_PATH."""
    return local_path(request.cookies.get(_NEXT_COOKIE, ""), root=root) or "/console"


def retry_after(error: GatewayError | None) -> Mapping[str, str]:
    """Return the header Retry-After of an error, if it has one."""
    headers = {} if error is None else error.headers
    return {name: value for name, value in headers.items() if name == "Retry-After"}


def _identify_owner(page: Page) -> tuple[str, ...]:
    return (page.principal.key_id, page.path)
