"""Results of calls in the form that a model reads: text, JSON and media, within a budget."""

from app.tool_results.model import Media, ModelResult, ResultBudget
from app.tool_results.problems import error_result
from app.tool_results.reader import read_result

__all__ = ["Media", "ModelResult", "ResultBudget", "error_result", "read_result"]
