# ruff: noqa: E501 - rows of Markdown tables are one line each.
"""Write `docs/errors.md` and `docs/access.md` from the catalogue of problem types and the scopes (`make reference`).

`tests/unit/server/test_reference_pages.py` fails where a file is not what this renders.
"""

from pathlib import Path
from typing import Final

from app.core.settings import Settings
from app.main import create_app
from app.server.problems.catalogue import describe_problem_types
from app.server.reference_pages.render import (
    render_problem_markdown,
    render_problems_markdown,
    render_scope_markdown,
    render_scopes_markdown,
)
from app.server.reference_pages.scopes import describe_scopes, list_any_key_operations

DOCS: Final = Path(__file__).parents[1] / "docs"
ERRORS_PAGE: Final = DOCS / "errors.md"
ACCESS_PAGE: Final = DOCS / "access.md"

_ERRORS: Final = """# Errors

<!-- Written by `make reference` from app/server/problems/catalogue_texts.py and app/core/errors.py; do not edit. -->

Every error is a problem document (RFC 9457, `application/problem+json`), in JSON responses, in the last event
of a stream and in the results of imports:

| member | meaning |
|---|---|
| `type` | `urn:utcp-gateway:problem:<slug>`: the same in every deployment and every release, so compare it, not the texts ([decision 59](decisions/0059-problem-types-are-urns-with-a-page.md)) |
| `title`, `status` | the title of the type, and the HTTP status |
| `detail` | what happened in this case; it never repeats a secret |
| `hint` | one sentence on what to do next |
| `retryable` | whether the same request may succeed when it is repeated, without doing anything twice; wait for `Retry-After` first |
| `documentation_url` | the page about the type, `/problems/<slug>` of the gateway, or about the missing scope; absent where the HTTP server rejects a request before it has read it |
| `errors` | the field errors: `pointer`, `detail`, and `expected` where it is known |
| `suggestions` | similar names that the API key may see |
| `call_id` | the id of the call's record |

Further members stand with their type below. `GET /problems` and `GET /problems/{slug}` serve this page as
HTML, JSON or Markdown (by `Accept`), without a key.

"""
_ACCESS: Final = """# Access

<!-- Written by `make reference` from app/security/scopes.py and the routes; do not edit. -->

Every operation needs an API key with one scope; those under `reference` and `/health` need none, and any valid
key is enough for those [at the end](#any-valid-key). A key may also be restricted to providers (`providers`) and tags (`tags`): what lies outside does not exist for it, and
is neither listed nor suggested. A key can grant only scopes, restrictions, a rate limit and an expiry within
its own. A request without the scope is [forbidden](errors.md#forbidden), with `missing_scopes`.

`GET /scopes` and `GET /scopes/{scope}` serve this page as HTML, JSON or Markdown (by `Accept`), without a
key.

"""
_ANY_KEY: Final = """
## Any valid key

These operations need a valid key, whatever its scopes. They tell a key about itself, or replace it; about
another key they need `keys:manage` as well.

"""


def render_errors() -> str:
    """Return docs/errors.md."""
    found = describe_problem_types()
    sections = [render_problem_markdown(one, heading="##") for one in found]
    return _ERRORS + render_problems_markdown(found) + "\n" + "\n".join(sections)


def render_access() -> str:
    """Return docs/access.md."""
    document = create_app(Settings(_env_file=None)).openapi()
    found = describe_scopes(document)
    sections = [render_scope_markdown(one, heading="##") for one in found]
    operations = "".join(f"- `{one}`\n" for one in list_any_key_operations(document))
    return _ACCESS + render_scopes_markdown(found) + "\n" + "\n".join(sections) + _ANY_KEY + operations


if __name__ == "__main__":
    ERRORS_PAGE.write_text(render_errors())
    ACCESS_PAGE.write_text(render_access())
