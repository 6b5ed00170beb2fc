"""`utcp-gateway explain`: whether a key may call a tool now."""

from typing import Annotated

import typer

from app.cli.completion import complete_key_ids, complete_tool_names, complete_toolset_names
from app.cli.session import SessionContext

_RESULTS = {True: "yes", False: "NO", None: "?"}


def explain(
    ctx: SessionContext,
    *,
    tool: Annotated[
        str, typer.Argument(help="The tool: provider.tool, or its alias.", autocompletion=complete_tool_names)
    ],
    key_id: Annotated[
        str | None,
        typer.Option(
            "--key-id",
            autocompletion=complete_key_ids,
            metavar="ID",
            help="Of another key, as `keys list` shows it.",
        ),
    ] = None,
    toolset: Annotated[
        str | None,
        typer.Option(
            "--toolset",
            autocompletion=complete_toolset_names,
            help="Of a call by the address of this toolset.",
        ),
    ] = None,
) -> None:
    """Explain whether a key may call a tool now, and why or why not.

    The checks are in the order of a call, which is not made: a call fails at the first one that says NO.
    """
    session = ctx.obj
    explanation = session.gateway.get(
        "/explain", query={"tool": tool, "key": key_id, "toolset": toolset}
    ).json()
    if session.output.is_structured:
        session.output.write_document(explanation)
        return
    rows = [
        (check["check"], _RESULTS.get(check["passed"], "?"), f"{check['detail']} {check['hint']}".strip())
        for check in explanation["checks"]
    ]
    session.output.write_table(("CHECK", "PASSED", "WHY"), rows)
    name = explanation.get("tool") or tool
    verdict = {True: "may call", False: "cannot call", None: "perhaps may call"}[explanation["may_call"]]
    session.output.note(f"The key {explanation['key_name']} ({explanation['key_id']}) {verdict} {name} now.")
