"""Query parameters and headers that several resources share, as types of routes."""

from typing import Annotated

from fastapi import Header, Query

from app.core.pagination.page_request import ONE_LINE

TagFilter = Annotated[
    str | None,
    Query(
        min_length=1,
        max_length=100,
        pattern=ONE_LINE,
        description="Return only tools with this tag, their own or their provider's.",
    ),
]
IfMatch = Annotated[
    str | None,
    Header(
        max_length=200,
        description="The ETag of the version that was read (RFC 9110 section 13.1.1); 412 if it has changed.",
        examples=['"1"'],
    ),
]
