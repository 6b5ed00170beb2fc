"""Lists in pages: their query parameters, cursors, SQL, totals and links; and preconditions.

A list route declares a subclass of `PageQuery` with its `sort` and filters, reads its rows with `read_page`
(keyset pagination: a page begins after a position in the order, not at a number), or makes a page of items in
memory with `paginate_items`, responds with a `PageModel` of `app.core.schemas`, and sets the header `Link` by
`UsesPageLinks` of `app.api.dependencies`.
"""

from app.core.pagination.in_memory import ItemField, paginate_items
from app.core.pagination.keyset import (
    Ordering,
    Page,
    SortField,
    contains,
    read_page,
)
from app.core.pagination.links import link_header
from app.core.pagination.page_request import (
    PageQuery,
    PageRequest,
    matches_etag,
    write_etag,
)

__all__ = [
    "ItemField",
    "Ordering",
    "Page",
    "PageQuery",
    "PageRequest",
    "SortField",
    "contains",
    "link_header",
    "matches_etag",
    "paginate_items",
    "read_page",
    "write_etag",
]
