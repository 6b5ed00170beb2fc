"""Converts OpenAPI documents into tools: no I/O, one stage per file, with an import report.

`convert` runs in this process, `app.openapi.child.convert_in_child` in a process of its own (for uploads).
"""

from app.openapi.conversion import Conversion, ConvertedTool
from app.openapi.convert import convert
from app.openapi.load import is_convertible, is_openapi, sniff
from app.openapi.model import ConvertOptions, DocumentLimits

__all__ = [
    "Conversion",
    "ConvertOptions",
    "ConvertedTool",
    "DocumentLimits",
    "convert",
    "is_convertible",
    "is_openapi",
    "sniff",
]
