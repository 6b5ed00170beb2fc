"""The language of the console, stored in a cookie for a year."""

from starlette.responses import Response

from app.console.http.local_urls import local_path
from app.console.http.page import LANGUAGE_COOKIE, Page
from app.console.http.page_router import PageRouter
from app.console.templating import LANGUAGES

_YEAR = 365 * 24 * 3600

router = PageRouter()


@router.post("/console/language", recent=False)
async def set_language(page: Page) -> Response:
    """Store the language of the form, and return to the page that the form was on."""
    form = await page.form()
    language, back = str(form.get("language", "")), str(form.get("back", ""))
    response = page.redirect(local_path(back, root=page.root) or "/console")
    if language in LANGUAGES:
        response.set_cookie(
            LANGUAGE_COOKIE,
            language,
            max_age=_YEAR,
            path=f"{page.root}/console",
            secure=page.request.url.scheme == "https",
            httponly=True,
            samesite="strict",
        )
    return response
