"""The filters of calls are one class; what reads them from a request, a URL of the console or a command has the same names."""

from dataclasses import fields

from app.api.calls.schemas import CallCsvQuery, CallQuery, CallSelection
from app.api.stats.schemas import StatsQuery
from app.calls.log.queries import CallFilters
from app.calls.stats.queries import StatFilters
from app.cli import calls, stats
from app.console.views import call_selection

RESTRICTIONS = {"providers", "tools"}
"""What a key may see, which no request names."""


def names_of(filters: type) -> set[str]:
    return {field.name for field in fields(filters)}


def test_lists_exports_streams_commands_and_pages_have_the_same_filters() -> None:
    filters = set(CallSelection.model_fields)
    assert filters <= names_of(CallFilters)
    assert names_of(calls.CallFilter) == filters == set(call_selection.FILTERS)
    for query in (CallQuery, CallCsvQuery):
        assert filters <= set(query.model_fields)
    # `before` is the cursor of an export, `text` is `q` of a list.
    assert names_of(CallFilters) - filters == RESTRICTIONS | {"since", "until", "call_id", "before", "text"}


def test_statistics_have_filters_of_the_list_only() -> None:
    filters = names_of(StatFilters) - RESTRICTIONS
    assert filters == set(StatsQuery.model_fields) & set(CallSelection.model_fields)
    assert filters == set(call_selection.STATISTICS_FILTERS)
    assert filters == names_of(stats.StatsFilter) & set(CallSelection.model_fields)
