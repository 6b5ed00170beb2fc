"""Results of calls in the form that a model reads: text, JSON and media, within a budget."""

from app.tool_results.bodies import describe_media
from app.tool_results.continuations import ContinuationStore
from app.tool_results.model import Media, ModelResult, ResultBudget, ResultFormat, TextResource
from app.tool_results.problems import error_result
from app.tool_results.projection import MAX_FIELDS, check_fields
from app.tool_results.reader import approval_of_handle, read_requested_call, read_response, read_result
from app.tool_results.rests import read_continuation

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
