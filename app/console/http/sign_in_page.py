"""The sign-in page, also as the response to a form of somebody whose session has ended: it keeps that form.

    POST /console/keys/new --> 401, the sign-in page with the form --> POST /console/sign-in --> the page that
    goes on with the form --> POST /console/keys/new

The form is sealed for the browser that has sent it (by a cookie), and after the sign-in for the key and the
path, as that of a confirmation is (`confirmation`).
"""

import re
import secrets
from collections.abc import Mapping
from typing import Final

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import Message

from app.access.sessions import Session, texts
from app.access.sessions.cookie import read_cookie
from app.access.sessions.site import check_same_origin, site_of
from app.api.dependencies import services_of
from app.console.forms.kept_forms import FORM_FIELD, MAX_FORM, open_form, seal_form
from app.console.forms.submitted_form import read_form
from app.console.http.local_urls import local_path
from app.console.http.page import (
    PAGE_HEADERS,
    SAFE_METHODS,
    language_of,
    origin_path,
    path_within,
    root_of,
    sent_target,
    sign_in_redirect,
)
from app.console.templating import template
from app.core.errors import GatewayError, TooLarge

_COOKIE: Final = "utcp-console-kept"
_COOKIE_SECONDS: Final = 86_400
_COOKIE_TEXT: Final = re.compile(r"[\w-]{22}", re.ASCII)
_STRANGERS_BYTES: Final = 64 << 10
_SEALED_FACTOR: Final = 3
"""A sealed form is longer than the form: base64 of base64, where it cannot be compressed."""


def sign_in_page(
    request: Request,
    *,
    session: Session | None = None,
    error: GatewayError | None = None,
    has_form: bool = True,
    next_path: str | None = None,
    kept: str = "",
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return the sign-in page; `kept` is a sealed form with which it goes on after the sign-in."""
    root = root_of(request)
    target = request.query_params.get("next", "") if next_path is None else next_path
    html = template("sign_in.html", language_of(request)).render(
        root=root,
        session=session,
        error=error,
        has_form=has_form,
        is_signed_out="signed_out" in request.query_params,
        next_path=local_path(target, root=root) or "",
        form_field=FORM_FIELD,
        kept=kept,
    )
    ended = 401 if kept else 200
    status = ended if error is None else error.status
    return HTMLResponse(html, status, headers={**PAGE_HEADERS, **(headers or {})})


async def ask_to_sign_in(request: Request, submitted: FormData | None = None) -> Response:
    """Return the response to a request without a session: the way to the sign-in page or, for a form of the
    gateway, that page with the form. `submitted` is the form, where it was read already.
    """
    if request.method in SAFE_METHODS or "x-fragment" in request.headers:
        return sign_in_redirect(request)
    try:
        check_same_origin(request.scope, services_of(request).settings)
        form = submitted
        if form is None:
            bounded = await with_bounded_body(request, form_limit(request) // _SEALED_FACTOR)
            form = await read_form(bounded, max_part_size=MAX_FORM)
    except GatewayError:
        # It is not a form of the gateway, or too large for somebody without a session.
        return sign_in_redirect(request)
    browser = _identify_browser(request) or secrets.token_urlsafe(16)
    kept = await seal_form(
        form,
        services_of(request).vault,
        owner=("browser", browser),
        target=(root_of(request) + (local_path(sent_target(request)) or ""), path_within(request)),
    )
    await form.close()
    if kept is None or not any(value for _, value in form.multi_items()):
        return sign_in_redirect(request)
    response = sign_in_page(request, next_path=origin_path(request), kept=kept)
    response.set_cookie(
        _COOKIE,
        browser,
        max_age=_COOKIE_SECONDS,
        path=f"{root_of(request)}/console",
        secure=site_of(request.scope, services_of(request).settings).is_secure,
        httponly=True,
        samesite="strict",
    )
    return response


async def continue_page(request: Request, kept: str, *, key_id: str, next_path: str) -> Response:
    """Return the page of somebody who has just signed in with a key: it goes on with the form that was kept.

    Raise BadRequest for a form that this browser has not sent.
    """
    vault = services_of(request).vault
    form, (target, path) = await open_form(kept, vault, owner=("browser", _identify_browser(request) or ""))
    sealed = await seal_form(form, vault, owner=(key_id, path))
    root = root_of(request)
    html = template("continue.html", language_of(request)).render(
        root=root,
        target=target,
        form_field=FORM_FIELD,
        form=sealed,
        key_id=key_id,
        next_path=local_path(next_path, root=root) or "/console",
    )
    return HTMLResponse(html, headers=PAGE_HEADERS)


def form_limit(request: Request) -> int:
    """Return how many bytes of a form with a sealed form are read of somebody who is not signed in: more of
    one whose browser has had a session of this gateway.
    """
    text, vault = read_cookie(request.scope), services_of(request).vault
    is_known = text is not None and texts.digest("session", text, vault=vault) is not None
    return MAX_FORM * _SEALED_FACTOR if is_known else _STRANGERS_BYTES


async def with_bounded_body(request: Request, limit: int) -> Request:
    """Return a request that anybody may send with its body read; raise TooLarge for one of over `limit`
    bytes.
    """
    size = 0
    pieces: list[bytes] = []
    async for piece in request.stream():
        size += len(piece)
        if size > limit:
            raise TooLarge(f"The form may have at most {limit} bytes.", extra={"limit": limit})
        pieces.append(piece)

    async def receive() -> Message:
        return {"type": "http.request", "body": b"".join(pieces), "more_body": False}

    return Request(request.scope, receive)


def _identify_browser(request: Request) -> str | None:
    text = request.cookies.get(_COOKIE, "")
    return text if _COOKIE_TEXT.fullmatch(text) else None
