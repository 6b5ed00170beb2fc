"""Converts OpenAPI documents into tools: no I/O, one stage per file, with an import report.

`convert` runs in this process, `app.openapi.process.client.convert_in_child` in a process of its own (for
uploads).
"""

from app.formats.archive import DocumentLimits
from app.openapi.conversion.convert import convert
from app.openapi.conversion.results import Conversion, ConvertedTool
from app.openapi.model import ConvertOptions
from app.openapi.reading.load import is_convertible, is_openapi, sniff

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
