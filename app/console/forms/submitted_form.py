"""The fields of a submitted form, read so that a large one does not stop the loop."""

import asyncio
from email.message import Message
from typing import Final
from urllib.parse import parse_qsl

from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request

from app.core.errors import BadRequest, UnsupportedMediaType
from app.core.media_types import parse_essence

MAX_FIELDS: Final = 5_000
_URL_ENCODED: Final = "application/x-www-form-urlencoded"
_LARGE: Final = 32 << 10
"""Bytes of a body in `application/x-www-form-urlencoded` beyond which a thread decodes it: each character in
percent-encoding costs some 0.3 microseconds, in one step of the loop.
"""


async def read_form(request: Request, *, max_part_size: int) -> FormData:
    """Return the fields of a form; files are `UploadFile`. `max_part_size` is in bytes.

    Raise UnsupportedMediaType for a form that is not in UTF-8, and BadRequest for too many fields.
    """
    check_charset(request)
    if (
        parse_essence(request.headers.get("content-type", "")) == _URL_ENCODED
        and len(body := await request.body()) > _LARGE
    ):
        return await asyncio.to_thread(_decode, body)
    return await request.form(max_fields=MAX_FIELDS, max_part_size=max_part_size)


def check_charset(request: Request) -> None:
    """Raise UnsupportedMediaType for a form that is not in UTF-8. Browsers send no parameter `charset`; some
    codecs of Python make of a text what no form can have, or raise errors of their own.
    """
    message = Message()
    message["Content-Type"] = request.headers.get("content-type", "")
    if str(message.get_param("charset", "utf-8")).lower() not in ("utf-8", "utf8"):
        raise UnsupportedMediaType("Send the form in UTF-8.")


def _media_type(request: Request) -> str:
    return parse_essence(request.headers.get("content-type", ""))


def _decode(body: bytes) -> FormData:
    try:
        pairs: list[tuple[str, str | UploadFile]] = [
            *parse_qsl(body.decode("latin-1"), keep_blank_values=True, max_num_fields=MAX_FIELDS)
        ]
    except ValueError:
        raise BadRequest(f"The form may have at most {MAX_FIELDS} fields.") from None
    return FormData(pairs)
