"""The header `Link` (RFC 8288) of a page: `rel="first"`, and `rel="next"` where there is a next page."""

from collections.abc import Iterable
from urllib.parse import quote, urlencode


def link_header(path: str, query: Iterable[tuple[str, str]], *, next_cursor: str | None) -> str:
    """Return the value of the header `Link` of a page of the list at `path`, an absolute URL or a path.

    `query` are the decoded parameters of the request; all but `cursor` are those of the links, too.
    """
    others = [(name, value) for name, value in query if name != "cursor"]
    links = [] if next_cursor is None else [_link(path, [*others, ("cursor", next_cursor)], "next")]
    return ", ".join([*links, _link(path, others, "first")])


def _link(path: str, query: list[tuple[str, str]], relation: str) -> str:
    target = quote(path, safe="/:@[]%")
    return f'<{target}?{urlencode(query)}>; rel="{relation}"' if query else f'<{target}>; rel="{relation}"'
