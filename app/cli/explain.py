"""`utcp-gateway explain`: whether a key may call a tool now."""

from typing import Annotated

import typer

from app.cli.completion import key_ids, tool_names, toolset_names
from app.cli.session import SessionContext

_RESULTS = {True: "yes", False: "NO", None: "?"}


def explain(
    ctx: SessionContext,
    *,
    tool: Annotated[
        str, typer.Argument(help="The tool: provider.tool, or its alias.", autocompletion=tool_names)
    ],
    key_id: Annotated[
        str | None,
        typer.Option(
            "--key-id", autocompletion=key_ids, metavar="ID", help="Of another key, as `keys list` shows it."
        ),
    ] = None,
    toolset: Annotated[
        str | None,
        typer.Option(
            "--toolset", autocompletion=toolset_names, help="Of a call by the address of this toolset."
        ),
    ] = None,
) -> None:
    """Explain whether a key may call a tool now, and why or why not.

    The checks are in the order of a call, which is not made: a call fails at the first one that says NO.
    """
    session = ctx.obj
    found = session.gateway.get("/explain", query={"tool": tool, "key": key_id, "toolset": toolset}).json()
    if session.output.is_structured:
        session.output.document(found)
        return
    rows = [
        (check["check"], _RESULTS.get(check["passed"], "?"), f"{check['detail']} {check['hint']}".strip())
        for check in found["checks"]
    ]
    session.output.table(("CHECK", "PASSED", "WHY"), rows)
    name = found.get("tool") or tool
    verdict = {True: "may call", False: "cannot call", None: "perhaps may call"}[found["may_call"]]
    session.output.note(f"The key {found['key_name']} ({found['key_id']}) {verdict} {name} now.")
