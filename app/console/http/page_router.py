"""The routes of pages: who is signed in, whether the key must be presented again, and what the API rejects.

    router = PageRouter()

    @router.get("/console/providers")
    async def list_providers(page: Page) -> Response:
        found = await page.api.get("/providers", {"q": page.query.get("q"), "limit": 50})
        return page.render("providers.html", providers=found["items"], next_cursor=found["next_cursor"])

    @router.post("/console/providers/{name}/delete", recent=True)
    async def delete_provider(page: Page) -> Response:

A form declares whether it is dangerous: with `recent=True`, the handler runs only where the key of the
session was presented a short time ago (`confirmation`).

Without a session, the response leads to the sign-in page. Whatever the API rejects becomes a page that says
what happened and what to do, with the status of the API.
"""

import functools
from collections.abc import Awaitable, Callable
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.access.authorise import PUBLIC
from app.console.forms.confirmation import ask, confirm_form
from app.console.forms.kept_forms import is_kept
from app.console.http.api_client import ApiProblem, ConfirmationRequired
from app.console.http.page import SAFE_METHODS, Page, open_page
from app.console.http.sign_in_page import ask_to_sign_in
from app.console.views.pending_approvals import pending_approvals

Handler = Callable[[Page], Awaitable[Response]]


class PageRouter:
    """Collects the routes of pages. A path parameter is one segment, or `{name:path}`.

    `recent` declares that a route shows secrets, widens rights or deletes: a session reaches it only with a
    key that was presented a short time ago. Every form declares it, true or false.
    """

    def __init__(self) -> None:
        self.routes: list[Route] = []

    def get(self, path: str, *, recent: bool = False) -> Callable[[Handler], Handler]:
        """Serve GET (and HEAD) of a path by a handler."""
        return self._add(path, "GET", recent=recent)

    def post(self, path: str, *, recent: bool) -> Callable[[Handler], Handler]:
        """Serve the submission of a form to a path; requests from other sites are rejected."""
        return self._add(path, "POST", recent=recent)

    def _add(self, path: str, method: str, *, recent: bool) -> Callable[[Handler], Handler]:
        def register(handler: Handler) -> Handler:
            endpoint = _build_endpoint(handler, recent=recent)
            self.routes.append(Route(path, endpoint, methods=[method], include_in_schema=False))
            return handler

        return register


def _build_endpoint(handler: Handler, *, recent: bool) -> Callable[[Request], Awaitable[Response]]:
    @functools.wraps(handler)
    async def serve(request: Request) -> Response:
        page = await open_page(request)
        if page is None:
            return await ask_to_sign_in(request)
        form = None
        try:
            if request.method not in SAFE_METHODS:
                form = await page.form()
                page = replace(page, submitted=form)
            if recent or is_kept(form):
                confirmed = await confirm_form(page)
                if isinstance(confirmed, Response):
                    return confirmed
                page = replace(page, submitted=confirmed)
            if request.method in SAFE_METHODS and "x-fragment" not in request.headers:
                page = await _with_approvals(page)
            return await handler(page)
        except ConfirmationRequired:
            return await ask(page)
        except ApiProblem as problem:
            if problem.status == 401:
                return await ask_to_sign_in(request, page.submitted)
            return page.problem(problem)
        finally:
            # Closes the files of a form.
            await request.close()

    # The page asks for a session itself, and each operation of the API for its scope.
    serve.scope = PUBLIC  # type: ignore[attr-defined]
    serve.recent = recent  # type: ignore[attr-defined]
    return serve


async def _with_approvals(page: Page) -> Page:
    """Return the page with the number of pending approvals, which its navigation shows."""
    if not page.may("GET /approvals"):
        return page
    is_current = page.path.startswith("/console/approvals")
    count = await pending_approvals(page.request.app, page.api, page.principal.key_id, is_current=is_current)
    return replace(page, pending_approvals=count)
