"""What an import did, for people; and the exit code that says whether all of it worked."""

from collections.abc import Mapping, Sequence
from typing import Any

import typer

from app.cli.outcome import ExitCode
from app.cli.output import Output, sentences, shortened
from app.cli.session import Session

Json = Mapping[str, Any]

_COUNTS = ("operations", "accepted", "renamed", "skipped")
_CHANGES = ("added", "changed", "unchanged", "removed", "held")


def finish(session: Session, answer: Json, *, strict: bool = False) -> None:
    """Show an import's answer; leave with 4 if some entries of a list were refused, with 1 if all were.

    With `strict`, operations that were skipped count as entries that failed.
    """
    output = session.output
    entries = answer.get("entries")
    if output.json:
        output.document(answer)
    elif entries is not None:
        _show_entries(output, entries)
    else:
        show_import(output, answer)
    refused = [entry["verdict"] == "refused" for entry in entries or ()]
    if refused and all(refused):
        raise typer.Exit(ExitCode.REFUSED)
    if any(refused) or (strict and _skipped(answer)):
        raise typer.Exit(ExitCode.PARTIAL)


def show_import(output: Output, answer: Json) -> None:
    """One provider as it was registered, refreshed, or would be (a preview lists its tools)."""
    output.facts((name, answer.get(name)) for name in ("name", "title", "kind", "origins", "tool_count"))
    if "tools" in answer:
        rows = [
            (one["name"], one["method"], one["url"], shortened(one["description"])) for one in answer["tools"]
        ]
        output.table(("TOOL", "METHOD", "URL", "DESCRIPTION"), rows)
    _show_report(output, answer.get("report") or {})
    _show_difference(output, answer.get("difference"))
    if answer.get("pending"):
        output.warn(f"What is held back waits: utcp-gateway providers approve {answer.get('name')}")
    _show_consent(output, answer.get("name"), answer.get("needs_consent") or ())
    for slot in answer.get("slots") or ():
        if not slot["stored"]:
            command = f"utcp-gateway credentials set {answer['name']} {slot['slot']} --kind {_kind(slot)}"
            output.note(f"No credential in slot {slot['slot']} yet: {command}")
    if answer.get("exists"):
        output.warn(f"A provider named {answer['name']} exists already.")


def _show_report(output: Output, report: Json) -> None:
    """Counts, what was skipped or changed and why, and warnings."""
    counts = report.get("counts") or {}
    output.facts((name, str(counts[name])) for name in _COUNTS if name in counts)
    if report.get("tokens"):
        output.facts([("tokens, about", f"{report['tokens']:,} in all")])
    told = [
        one
        for one in report.get("operations") or ()
        if one["verdict"] == "skipped" or one["notes"] or one.get("slimmed")
    ]
    if told:
        output.table(("VERDICT", "OPERATION", "TOOL", "REMARKS"), [operation_row(one) for one in told])
    show_lint(output, report)
    for warning in report.get("warnings") or ():
        output.warn("Warning: " + ": ".join(filter(None, (warning["pointer"], warning["detail"]))))


def operation_row(operation: Json) -> tuple[object, ...]:
    """Verdict, operation, tool and remarks of one operation of a report."""
    slimmed = f"slimmed: {', '.join(operation['slimmed'])}" if operation.get("slimmed") else None
    text = "; ".join([*filter(None, [operation.get("reason"), slimmed]), *operation["notes"]])
    return (operation["verdict"], operation["source_key"], operation["name"], shortened(text, length=200))


def show_lint(output: Output, report: Json, *, each: bool = False) -> None:
    """What makes tools hard for a model: how many tools by rule, or (`each`) every finding."""
    found = [(one, finding) for one in report.get("operations") or () for finding in one.get("lint") or ()]
    if not found:
        return
    output.text("")
    if each:
        rows = [(f["rule"], one["name"], f["detail"], f["suggestion"]) for one, f in found]
        output.table(("RULE", "TOOL", "FINDING", "SUGGESTION"), rows)
        return
    rules: dict[str, list[tuple[Json, Json]]] = {}
    for one, finding in found:
        rules.setdefault(finding["rule"], []).append((one, finding))
    summary = [
        (rule, len(pairs), pairs[0][0]["name"], pairs[0][1]["suggestion"]) for rule, pairs in rules.items()
    ]
    output.table(("HARD FOR A MODEL", "TOOLS", "SUCH AS", "SUGGESTION"), summary)


def _show_difference(output: Output, difference: Mapping[str, Any] | None) -> None:
    if difference is None:
        return
    output.facts((what, str(len(difference[what]))) for what in _CHANGES if what in difference)
    operations = difference.get("operations")
    if operations:
        output.facts([("verdict", difference.get("verdict"))])
        show_operations(output, operations)
        return
    rows = [(what, key) for what in _CHANGES if what != "unchanged" for key in difference.get(what, ())]
    if rows:
        output.table(("CHANGE", "OPERATION"), rows)


def show_operations(output: Output, operations: Sequence[Json]) -> None:
    """What changed on each operation, and whether callers can go on."""
    rows = []
    for one in operations:
        details = [
            " ".join(filter(None, (f["aspect"], f["pointer"], f["detail"]))) for f in one["differences"]
        ]
        waits = "waits for approval" if one["held"] else None
        remarks = shortened("; ".join(filter(None, [waits, *details])), length=400)
        rows.append((one["change"], one["verdict"], one["source_key"], remarks))
    output.table(("CHANGE", "VERDICT", "OPERATION", "REMARKS"), rows)


def show_pending(output: Output, provider: Json) -> None:
    """What of a provider waits for approval."""
    pending = provider.get("pending")
    if pending:
        show_operations(output, pending["operations"])
        output.warn(f"These changes wait: utcp-gateway providers approve {provider['name']}")


def _show_consent(output: Output, name: object, consents: Sequence[Json]) -> None:
    """What a document asks for and does not get without the registrar's word."""
    for consent in consents:
        if consent.get("token_url"):
            output.warn(f"Its token URL {consent['token_url']} is not used for slot {consent['slot']}.")
        if consent["origins"]:
            places = ", ".join(consent["origins"])
            output.warn(
                f"Tools at {places} do not get the credential of slot {consent['slot']}: "
                f"allow it with credentials set {name} {consent['slot']} --allow-origin ..."
            )


def _show_entries(output: Output, entries: Sequence[Json]) -> None:
    output.table(("VERDICT", "PROVIDER", "TOOLS", "REMARKS"), [_entry_row(entry) for entry in entries])
    for entry in entries:
        _show_consent(output, entry["name"], entry.get("needs_consent") or ())


def _entry_row(entry: Json) -> tuple[object, ...]:
    problem = entry.get("problem")
    counts = (entry.get("report") or {}).get("counts") or {}
    skipped = f"{counts['skipped']} operations skipped" if counts.get("skipped") else ""
    remark = " ".join(sentences(problem)) if problem else skipped
    return (entry["verdict"], entry["name"], entry.get("tool_count"), shortened(remark, length=400))


def _skipped(answer: Json) -> bool:
    reports = [answer.get("report"), *(entry.get("report") for entry in answer.get("entries") or ())]
    return any(report["counts"]["skipped"] for report in reports if report)


def _kind(slot: Json) -> str:
    return str(slot["kind"]) if slot["kind"] in ("api_key", "basic", "bearer", "oauth2", "static") else "..."
