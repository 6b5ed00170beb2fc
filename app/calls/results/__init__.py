"""Results of calls in the form that a model reads: text, JSON and media, within a budget."""

from app.calls.results.bodies import describe_media
from app.calls.results.continuations import ContinuationStore
from app.calls.results.model import (
    Media,
    ModelResult,
    ResultBudget,
    ResultFormat,
    TextResource,
)
from app.calls.results.problems import error_result
from app.calls.results.projection import MAX_FIELDS, check_fields
from app.calls.results.reader import approval_of_handle, read_requested_call, read_response, read_result
from app.calls.results.rests import read_continuation

__all__ = [
    "MAX_FIELDS",
    "ContinuationStore",
    "Media",
    "ModelResult",
    "ResultBudget",
    "ResultFormat",
    "TextResource",
    "approval_of_handle",
    "check_fields",
    "describe_media",
    "error_result",
    "read_continuation",
    "read_requested_call",
    "read_response",
    "read_result",
]
