"""Reports of imports as tables and sentences, and the exit code of an import that failed in part."""

from collections.abc import Mapping, Sequence
from typing import Any

import typer

from app.cli.errors import ExitCode
from app.cli.output import CommandOutput, shorten, write_sentences
from app.cli.session import ClientSession

Json = Mapping[str, Any]

_COUNTS = ("operations", "accepted", "renamed", "skipped")
_CHANGES = ("added", "changed", "unchanged", "removed", "pending_approval")


def finish_import(session: ClientSession, result: Json, *, strict: bool = False) -> None:
    """Show an import's result; exit with 4 if some entries of a list failed, with 1 if all did.

    With `strict`, operations that were skipped count as entries that failed.
    """
    output = session.output
    entries = result.get("entries")
    if output.is_structured:
        output.write_document(result)
    elif entries is not None:
        _show_entries(output, entries)
        for toolset in result.get("toolsets") or ():
            why = " ".join(write_sentences(toolset["problem"])) if toolset.get("problem") else ""
            output.note(f"toolset {toolset['name']}: {toolset['outcome']} {why}".rstrip())
    else:
        show_import(output, result)
    failed = [entry["outcome"] == "failed" for entry in (*(entries or ()), *(result.get("toolsets") or ()))]
    if failed and all(failed):
        raise typer.Exit(ExitCode.FAILED)
    if any(failed) or (strict and _has_skipped(result)):
        raise typer.Exit(ExitCode.PARTIAL)


def show_import(output: CommandOutput, result: Json) -> None:
    """Show one provider as it was registered or refreshed, or would be (a preview lists its tools)."""
    output.write_fields(
        (name, result.get(name)) for name in ("name", "title", "kind", "origins", "tool_count")
    )
    if "tools" in result:
        rows = [
            (one["name"], one["method"], one["url"], shorten(one["description"])) for one in result["tools"]
        ]
        output.write_table(("TOOL", "METHOD", "URL", "DESCRIPTION"), rows)
    _show_report(output, result.get("report") or {})
    _show_difference(output, result.get("difference"))
    if result.get("pending"):
        output.warn(f"Changes are pending: utcp-gateway providers approve {result.get('name')}")
    _show_consent(output, result.get("name"), result.get("needs_consent") or ())
    for slot in result.get("slots") or ():
        if not slot["stored"] and slot.get("exact_kind") == "mutual_tls":
            options = "the options client_certificate and client_key of the provider"
            output.note(f"No client certificate for slot {slot['slot']} yet: {options}")
        elif not slot["stored"]:
            command = (
                f"utcp-gateway credentials set {result['name']} {slot['slot']} --kind {_name_kind(slot)}"
            )
            output.note(f"No credential in slot {slot['slot']} yet: {command}")
    if result.get("exists"):
        output.warn(f"A provider named {result['name']} exists already.")


def _show_report(output: CommandOutput, report: Json) -> None:
    """Show counts, the operations that were skipped or changed and why, and warnings."""
    counts = report.get("counts") or {}
    output.write_fields((name, str(counts[name])) for name in _COUNTS if name in counts)
    if report.get("final_url"):
        output.write_fields([("redirects to", report["final_url"])])
    if report.get("tokens"):
        output.write_fields([("tokens, about", f"{report['tokens']:,} in all")])
    remarkable = [
        one
        for one in report.get("operations") or ()
        if one["outcome"] == "skipped" or one["notes"] or one.get("slimmed")
    ]
    if remarkable:
        output.write_table(
            ("OUTCOME", "OPERATION", "TOOL", "REMARKS"), [build_operation_row(one) for one in remarkable]
        )
    show_lint(output, report)
    show_unread(output, report.get("unread") or ())
    show_servers(output, report)
    for warning in report.get("warnings") or ():
        output.warn("Warning: " + ": ".join(filter(None, (warning["pointer"], warning["detail"]))))


def show_unread(output: CommandOutput, unread: Sequence[Json]) -> None:
    """Show on one line which fields of an OpenAPI document have no effect on its tools, and how often."""
    names = (f"{one['object'].removesuffix(' Object')} {one['field']} ({one['count']})" for one in unread)
    output.write_fields([("no effect", ", ".join(names) or None)])


def show_servers(output: CommandOutput, report: Json) -> None:
    """Show the servers of a document whose URLs have variables, or of which there are several."""
    servers = report.get("servers") or ()
    if servers:
        rows = [(one["url"], one["description"], _write_variables(one)) for one in servers]
        output.write_text("")
        output.write_table(("SERVER", "DESCRIPTION", "VARIABLES"), rows)


def _write_variables(server: Json) -> str:
    """Return what the variables of a server can be: `region=eu (eu, us); tenant (no default)`."""
    texts = []
    for name, variable in server["variables"].items():
        default = f"{name} (no default)" if variable["default"] is None else f"{name}={variable['default']}"
        texts.append(f"{default} ({', '.join(variable['enum'])})" if variable["enum"] else default)
    return shorten("; ".join(texts), length=200)


def build_operation_row(operation: Json) -> tuple[object, ...]:
    """Return outcome, operation, tool and remarks of one operation of a report."""
    slimmed = f"slimmed: {', '.join(operation['slimmed'])}" if operation.get("slimmed") else None
    text = "; ".join([*filter(None, [operation.get("reason"), slimmed]), *operation["notes"]])
    return (operation["outcome"], operation["source_key"], operation["name"], shorten(text, length=200))


def show_lint(output: CommandOutput, report: Json, *, each: bool = False) -> None:
    """Show lint findings on tools that are hard for a model to use: their number by rule, or (`each`) all."""
    findings = [
        (operation, finding)
        for operation in report.get("operations") or ()
        for finding in operation.get("lint") or ()
    ]
    if not findings:
        return
    output.write_text("")
    if each:
        rows = [(f["rule"], operation["name"], f["detail"], f["suggestion"]) for operation, f in findings]
        output.write_table(("RULE", "TOOL", "FINDING", "SUGGESTION"), rows)
        return
    rules: dict[str, list[tuple[Json, Json]]] = {}
    for operation, finding in findings:
        rules.setdefault(finding["rule"], []).append((operation, finding))
    summary = [
        (rule, len(pairs), pairs[0][0]["name"], pairs[0][1]["suggestion"]) for rule, pairs in rules.items()
    ]
    output.write_table(("LINT RULE", "TOOLS", "EXAMPLE", "SUGGESTION"), summary)


def _show_difference(output: CommandOutput, difference: Mapping[str, Any] | None) -> None:
    if difference is None:
        return
    output.write_fields((what, str(len(difference[what]))) for what in _CHANGES if what in difference)
    operations = difference.get("operations")
    if operations:
        output.write_fields([("compatibility", difference.get("compatibility"))])
        show_operations(output, operations)
        return
    rows = [(what, key) for what in _CHANGES if what != "unchanged" for key in difference.get(what, ())]
    if rows:
        output.write_table(("CHANGE", "OPERATION"), rows)


def show_operations(output: CommandOutput, operations: Sequence[Json], *, complete: bool = False) -> None:
    """Show the change of each operation, and whether it is compatible; with `complete`, nothing is cut."""
    rows = []
    for operation in operations:
        details = [
            " ".join(filter(None, (f["aspect"], f["pointer"], f["detail"]))) for f in operation["differences"]
        ]
        pending = "pending approval" if operation["pending_approval"] else None
        remarks = "; ".join(filter(None, [pending, *details]))
        remarks = remarks if complete else shorten(remarks, length=400)
        rows.append((operation["change"], operation["compatibility"], operation["source_key"], remarks))
    output.write_table(("CHANGE", "COMPATIBILITY", "OPERATION", "REMARKS"), rows)


def show_pending(output: CommandOutput, provider: Json) -> None:
    """Show the changes of a provider that are pending approval."""
    pending = provider.get("pending")
    if pending:
        show_operations(output, pending["operations"], complete=True)
        output.warn(f"These changes are pending: utcp-gateway providers approve {provider['name']}")


def _show_consent(output: CommandOutput, name: object, consents: Sequence[Json]) -> None:
    """Show the origins and token URLs of a document that are not used without the operator's consent."""
    for consent in consents:
        if consent.get("token_url"):
            output.warn(f"Its token URL {consent['token_url']} is not used for slot {consent['slot']}.")
        if consent["origins"]:
            origins = ", ".join(consent["origins"])
            output.warn(
                f"Tools at {origins} do not get the credential of slot {consent['slot']}: "
                f"allow it with credentials set {name} {consent['slot']} --allow-origin ..."
            )


def _show_entries(output: CommandOutput, entries: Sequence[Json]) -> None:
    output.write_table(
        ("OUTCOME", "PROVIDER", "TOOLS", "REMARKS"), [_build_entry_row(entry) for entry in entries]
    )
    for entry in entries:
        _show_consent(output, entry["name"], entry.get("needs_consent") or ())


def _build_entry_row(entry: Json) -> tuple[object, ...]:
    problem = entry.get("problem")
    counts = (entry.get("report") or {}).get("counts") or {}
    skipped = f"{counts['skipped']} operations skipped" if counts.get("skipped") else ""
    remark = " ".join(write_sentences(problem)) if problem else skipped
    return (entry["outcome"], entry["name"], entry.get("tool_count"), shorten(remark, length=400))


def _has_skipped(result: Json) -> bool:
    reports = [result.get("report"), *(entry.get("report") for entry in result.get("entries") or ())]
    return any(report["counts"]["skipped"] for report in reports if report)


def _name_kind(slot: Json) -> str:
    kind = slot.get("exact_kind") or slot["kind"]
    return "..." if kind in ("any", "unsupported") else str(kind)
