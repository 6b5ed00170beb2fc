"""ToolClad manifests -> a ParsedSource, by way of a UTCP manual; the report names manifests by file."""

from dataclasses import replace

from app.core.errors import FieldError, InvalidDocument
from app.core.text import pointer, split_pointer
from app.formats.toolclad.sources import ManifestManual, RejectedManifest, read_source
from app.openapi.report import OperationOutcome, SourceWarning
from app.providers.registration.model import ParsedSource, RegistrationSource

_MAX_IGNORED = 20


def read_manifests(source: RegistrationSource) -> ManifestManual:
    """Return the manifests of a source; raise TooLarge, and InvalidDocument with pointers into it."""
    try:
        return read_source(source.body)
    except InvalidDocument as error:
        error.errors = tuple(replace(one, pointer=source.at + one.pointer) for one in error.errors)
        raise


def from_manifests(read: ParsedSource, manual: ManifestManual) -> ParsedSource:
    """Return the source that was read from the manual of the manifests, with what is to be said of each."""
    outcomes = [_translate_outcome(one, manual) for one in read.report.operations]
    outcomes += [_report_rejected(one) for one in manual.rejected]
    ignored = [
        SourceWarning("It is no manifest, and was not read.", pointer("", name))
        for name in manual.ignored[:_MAX_IGNORED]
    ]
    report = replace(read.report, operations=tuple(outcomes), warnings=(*read.report.warnings, *ignored))
    return replace(read, format="toolclad", report=report)


def located(error: FieldError, manual: ManifestManual, *, at: str) -> FieldError:
    """Return an error in the manual as one in the manifest that the tool comes from."""
    if not error.pointer.startswith(f"{at}/tools/"):
        return error
    return replace(error, pointer=at + _translate_pointer(error.pointer.removeprefix(at), manual))


def _translate_outcome(outcome: OperationOutcome, manual: ManifestManual) -> OperationOutcome:
    index = _find_index(outcome.pointer)
    if index is None or index >= len(manual.files):
        return outcome
    changed = replace(outcome, pointer=_translate_pointer(outcome.pointer, manual))
    notes = manual.notes[index]
    return replace(changed, notes=(*outcome.notes, *notes)) if notes else changed


def _report_rejected(rejected: RejectedManifest) -> OperationOutcome:
    """Return the entry of the report for a manifest that is no tool: what is wrong, and where."""
    error, file = rejected.error, rejected.file or ""
    base = pointer("", file) if file else ""
    first = error.errors[0] if error.errors else None
    reason = error.detail if first is None else f"{error.detail.rstrip('.')}: {first.detail}"
    where = base if first is None else base + first.pointer
    return OperationOutcome.of(file, pointer=where, reason=reason)


def _translate_pointer(manual_pointer: str, manual: ManifestManual) -> str:
    """Return a pointer into the manual as one into the manifests: `/file/http/url`, or `/http/url` of a sole
    manifest.
    """
    index = _find_index(manual_pointer)
    if index is None or index >= len(manual.files):
        return manual_pointer
    file = manual.files[index]
    rest = split_pointer(manual_pointer)[2:]
    for prefix in (["tool_call_template", "toolclad"], ["tool_call_template"]):
        if rest[: len(prefix)] == prefix:
            rest = rest[len(prefix) :]
            break
    return pointer("", *([] if file is None else [file]), *rest)


def _find_index(manual_pointer: str) -> int | None:
    parts = split_pointer(manual_pointer) if manual_pointer.startswith("/tools/") else []
    return int(parts[1]) if len(parts) > 1 and parts[1].isdecimal() else None
