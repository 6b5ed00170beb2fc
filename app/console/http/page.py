"""A request of the console: who is signed in, what the page may show, and how it responds."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

import structlog
from starlette.datastructures import FormData, QueryParams
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from app.access.authorise import authorise, presented_key
from app.access.sessions import Session
from app.access.sessions.cookie import read_cookie
from app.access.sessions.site import check_same_origin
from app.api.dependencies import services_of
from app.console.forms.submitted_form import read_form
from app.console.http.api_client import ApiClient, ApiProblem
from app.console.http.local_urls import local_path
from app.console.http.operations import Operations
from app.console.templating import LANGUAGES, render_block, template, translations
from app.console.views.navigation import NavigationItem, navigation
from app.console.views.notices import Notice, read_notice
from app.core.errors import Unauthenticated
from app.security.principal import Principal
from app.services import Services

log = structlog.get_logger(__name__)

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
PAGE_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "Vary": "Cookie, X-Fragment",
    "X-Frame-Options": "DENY",
}
LANGUAGE_COOKIE: Final = "utcp-console-language"
SAFE_METHODS: Final = frozenset({"GET", "HEAD"})
PAGE_SIZE: Final = 50
"""Rows of a list on one page."""


@dataclass(frozen=True, slots=True)
class Page:
    """The request of one page, by somebody who is signed in.

    `session` is None where the request has a key of its own (`Authorization`) in place of a session.
    """

    request: Request
    services: Services
    principal: Principal
    session: Session | None
    api: ApiClient
    language: str
    pending_approvals: int | None = None
    """What waits for a decision, for the navigation; None for a fragment, and where the key may see none."""
    undo_key: bytes = field(default=b"", repr=False)
    """Authenticates the undo of a notice; empty without a session, where there is no undo."""
    submitted: FormData | None = field(default=None, repr=False)
    """The submitted form; the one before the confirmation, where the request has confirmed that."""

    @property
    def query(self) -> QueryParams:
        """The parameters of the URL."""
        return self.request.query_params

    @property
    def root(self) -> str:
        """The path before every path of the gateway: ROOT_PATH, or ""."""
        return root_of(self.request)

    def gettext(self, message: str) -> str:
        """Return a message in the language of the page."""
        return translations(self.language).gettext(message)

    def parameter(self, name: str) -> str:
        """Return a segment of the path, decoded."""
        return str(self.request.path_params[name])

    async def form(self) -> FormData:
        """Return the fields of a submitted form; files are `UploadFile`. Raise as `read_form` does."""
        if self.submitted is not None:
            return self.submitted
        return await read_form(self.request, max_part_size=self.services.settings.max_document_bytes)

    async def is_recent(self) -> bool:
        """Return whether the key of the session was presented within the last five minutes; a request with a
        key of its own presents it.
        """
        if self.session is None:
            return True
        text = read_cookie(self.request.scope)
        return text is not None and await self.services.sessions.is_recent(text)

    def may(self, operation: str) -> bool:
        """Return whether the scopes of the key allow an operation of the API, such as `PATCH /tools/{name}`.

        Raise KeyError for an operation that the API does not have.
        """
        return Operations.of(self.request.app).allowed(operation, self.principal)

    def url(self, path: str, query: Mapping[str, Any] | None = None) -> str:
        """Return a path of the console with parameters; those that are None or empty are left out."""
        given = {name: value for name, value in (query or {}).items() if value not in (None, "", [])}
        encoded = urlencode(given, doseq=True, quote_via=quote)
        return self.root + path + (f"?{encoded}" if encoded else "")

    def url_with(self, **changes: Any) -> str:
        """Return the URL of this page with changed parameters, without a cursor; None removes one."""
        given: dict[str, Any] = {}
        for name, value in self.query.multi_items():
            given.setdefault(name, []).append(value)
        for name in ("cursor", "notice", "count", "subject", "undo", "undo_field", "undo_mac"):
            given.pop(name, None)
        given |= changes
        return self.url(self.path, given)

    @property
    def path(self) -> str:
        """The path of this page, without the root path."""
        return path_within(self.request)

    def render(
        self, name: str, *, status: int = 200, headers: Mapping[str, str] | None = None, **context: Any
    ) -> Response:
        """Return a template as the response, or only its block that the header `X-Fragment` names."""
        values = self._build_context() | context
        fragment = self.request.headers.get("x-fragment")
        html = render_block(name, fragment, self.language, values) if fragment else None
        if html is None:
            html = template(name, self.language).render(values)
        return HTMLResponse(html, status, headers={**PAGE_HEADERS, **(headers or {})})

    def redirect(
        self, path: str, query: Mapping[str, Any] | None = None, *, notice: Notice | None = None
    ) -> Response:
        """Return a redirect to a page after a form was handled (303); the page shows the notice once."""
        given = {**(query or {}), **(notice.as_query(self.undo_key) if notice else {})}
        return RedirectResponse(self.url(path, given), 303, headers={"Cache-Control": "no-store"})

    def problem(self, problem: ApiProblem) -> Response:
        """Return the page that says what the API rejected, and what to do."""
        return self.render("problem.html", status=problem.status, problem=problem)

    def navigation(self) -> list[NavigationItem]:
        """Return the pages that the key may use, this one marked."""
        return navigation(
            self.path, may=self.may, gettext=self.gettext, pending_approvals=self.pending_approvals
        )

    def _build_context(self) -> dict[str, Any]:
        return {
            "page": self,
            "root": self.root,
            "path": self.path,
            "query": self.query,
            "may": self.may,
            "url": self.url,
            "url_with": self.url_with,
            "principal": self.principal,
            "navigation": self.navigation(),
            "notice": read_notice(self.query, self.gettext, self.undo_key),
            "settings": self.services.settings,
        }


async def open_page(request: Request) -> Page | None:
    """Return the page of a request, None where nobody is signed in.

    Raise Forbidden for a form from another site, and Unauthenticated for an invalid key.
    """
    services = services_of(request)
    session: Session | None = None
    undo_key = b""
    if presented_key(request.scope["headers"]) is not None:
        principal = await authorise(request, None)
    else:
        text = read_cookie(request.scope)
        session = await services.sessions.find(text) if text else None
        principal_of_session = await services.keys.principal_by_id(session.key_id) if session else None
        if session is None or principal_of_session is None:
            return None
        principal = principal_of_session
        undo_key = sha256(b"undo\0" + (text or "").encode()).digest()
        if request.method not in SAFE_METHODS:
            check_same_origin(request.scope, services.settings)
    bind = structlog.contextvars.bind_contextvars
    bind(key_id=principal.key_id)

    async def current() -> Principal:
        if session is None:
            return await authorise(request, None)
        text = read_cookie(request.scope)
        if not text or await services.sessions.find(text) is None:
            raise Unauthenticated("The session has ended.")
        now = await services.keys.principal_by_id(session.key_id)
        if now is None:
            raise Unauthenticated("The session has ended: its key is not valid any more.")
        return now

    async def is_recent() -> bool:
        return await page.is_recent()

    page = Page(
        request,
        services,
        principal,
        session,
        ApiClient(request, current, is_recent=is_recent),
        language_of(request),
        undo_key=undo_key,
    )
    return page


def language_of(request: Request) -> str:
    """Return the language of a page: that of the cookie, or the first of `Accept-Language` that there is."""
    chosen = request.cookies.get(LANGUAGE_COOKIE, "")
    if chosen in LANGUAGES:
        return chosen
    for part in request.headers.get("accept-language", "")[:200].split(","):
        tag = part.split(";")[0].strip().lower()[:2]
        if tag in LANGUAGES:
            return tag
    return "en"


def sign_in_redirect(request: Request) -> Response:
    """Return the way to the sign-in page, from which one comes back here; 401 for a fragment.

    A link of another site first leads to a page of ours that goes on to the same URL: browsers send the
    cookie of the session, which is `SameSite=Strict`, only with that second request.
    """
    headers = request.headers
    if headers.get("x-fragment"):
        return Response(status_code=401, headers={"Cache-Control": "no-store"})
    target = local_path(sent_target(request), root=root_of(request)) or "/console"
    is_safe = request.method in SAFE_METHODS
    is_foreign_link = headers.get("sec-fetch-site") == "cross-site" and read_cookie(request.scope) is None
    if is_safe and is_foreign_link and headers.get("sec-fetch-mode") == "navigate":
        context = {"root": root_of(request), "target": root_of(request) + target}
        html = template("onward.html", language_of(request)).render(context)
        return HTMLResponse(html, headers=PAGE_HEADERS)
    query = urlencode({"next": target if is_safe else origin_path(request)})
    return RedirectResponse(
        f"{root_of(request)}/console/sign-in?{query}",
        303,
        headers={"Cache-Control": "no-store"},
    )


def sent_target(request: Request) -> str:
    """Return path and query of a request as the client has sent them."""
    raw: bytes = request.scope.get("raw_path") or quote(request.scope["path"]).encode("ascii")
    query: bytes = request.scope["query_string"]
    return (raw + (b"?" + query if query else b"")).decode("latin-1")


def origin_path(request: Request) -> str:
    """Return the path of the page that has submitted a form, as the browser says; that of the overview where
    it says none of the console.
    """
    referrer = urlsplit(request.headers.get("referer", "")[:4_000])
    if referrer.netloc != request.headers.get("host"):
        return "/console"
    path = referrer.path + (f"?{referrer.query}" if referrer.query else "")
    return local_path(path, root=root_of(request)) or "/console"


def path_within(request: Request) -> str:
    """Return the path of a request, without the root path."""
    path, root = str(request.scope["path"]), root_of(request)
    return path[len(root) :] if root and path.startswith(root + "/") else path


def root_of(request: Request) -> str:
    """Return the path before every path of the gateway: ROOT_PATH, or ""."""
    return str(request.scope.get("root_path", "")).rstrip("/")
