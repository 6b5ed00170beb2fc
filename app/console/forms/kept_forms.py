"""Submitted forms that wait until somebody has signed in or confirmed.

A page that asks for that has the form as a hidden field, sealed for its owner: nothing typed is lost, and no
page has a secret of a form.
"""

import asyncio
import base64
import binascii
import io
import json
import zlib
from collections.abc import Sequence
from typing import Any, Final

from starlette.datastructures import FormData, Headers, UploadFile

from app.core.errors import BadRequest
from app.security.vault import SealBroken, Vault

FORM_FIELD: Final = "confirm.form"
"""The field with the sealed form. No page has a field of this name."""
MAX_FORM: Final = 1 << 20
"""Characters and bytes of a form that is kept; a longer one has to be sent again."""
_CONTEXT: Final = "console-form-2"


def is_kept(form: FormData | None) -> bool:
    """Return whether a form has the form to handle, sealed, in it."""
    return form is not None and FORM_FIELD in form


async def seal_form(
    form: FormData, vault: Vault, *, owner: Sequence[str], target: Sequence[str] = ()
) -> str | None:
    """Return the fields and files of a form, sealed for `owner`, with `target`, texts that belong to it; None
    for a form that is too large.
    """
    fields: list[list[str]] = []
    size = 0
    for name, value in form.multi_items():
        if isinstance(value, str):
            fields.append([name, value])
            size += len(value)
        else:
            size += value.size or 0
            if size > MAX_FORM:
                return None
            await value.seek(0)
            content = base64.b64encode(await value.read()).decode("ascii")
            fields.append([name, content, value.filename or "", value.content_type or ""])
        size += len(name)
    if size > MAX_FORM:
        return None
    return await asyncio.to_thread(_seal, {"fields": fields, "target": list(target)}, vault, owner)


async def open_form(text: str, vault: Vault, *, owner: Sequence[str]) -> tuple[FormData, list[str]]:
    """Return a form and its target, as they were sealed for `owner`.

    Raise BadRequest for text that is damaged, or sealed for another owner.
    """
    kept = await asyncio.to_thread(_open, text, vault, owner)
    return FormData([(field[0], _restore_value(*field[1:])) for field in kept["fields"]]), kept["target"]


def _restore_value(text: str, filename: str | None = None, content_type: str = "") -> str | UploadFile:
    if filename is None:
        return text
    content = base64.b64decode(text)
    headers = Headers({"content-type": content_type})
    return UploadFile(io.BytesIO(content), size=len(content), filename=filename, headers=headers)


def _seal(kept: dict[str, Any], vault: Vault, owner: Sequence[str]) -> str:
    plain = zlib.compress(json.dumps(kept).encode("ascii"), 6)
    return base64.urlsafe_b64encode(vault.seal(plain, context=(_CONTEXT, *owner))).decode("ascii")


def _open(text: str, vault: Vault, owner: Sequence[str]) -> dict[str, Any]:
    try:
        plain = zlib.decompress(vault.open(base64.urlsafe_b64decode(text), context=(_CONTEXT, *owner)))
    except (binascii.Error, ValueError, SealBroken, zlib.error):
        raise BadRequest("The confirmed form is of another page or key: fill it in again.") from None
    kept: dict[str, Any] = json.loads(plain)
    return kept
