"""The block of docs/plugins.md with the entries that are made from a vendor's document: `python -m tests.plugins.table`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from app.providers.plugins.entry import PluginEntry
from app.providers.plugins.loader import PluginCatalogue
from tests.plugins.record import stored
from tests.plugins.sdks import SDKS

PAGE: Final = Path(__file__).parents[2] / "docs" / "plugins.md"
BEGIN: Final = "<!-- written by make plugin-requests -->"
END: Final = "<!-- end of what make plugin-requests writes -->"


def render() -> str:
    """Return the block."""
    entries = [PluginCatalogue().read(name) for name in sorted(SDKS)]
    tools = sum(len(one.tool_names) for one in entries)
    head = f"{len(entries)} plugins with {tools} tools:"
    columns = "| plugin | tools | document, its version and licence | checked | SDK |"
    return "\n".join(
        [BEGIN, "", head, "", columns, "|---|---|---|---|---|", *map(_row, entries), "", *_reasons(), "", END]
    )


def _row(entry: PluginEntry) -> str:
    source = entry.document
    assert source is not None
    sdk = stored(entry.name)["sdk"]
    own = f"[{source.version}]({source.url}), {source.license}"
    version = f"[{sdk['package']}]({sdk['source']}) {sdk['version']} ({sdk['registry']}, {sdk['license']})"
    return f"| `{entry.name}` | {len(entry.tool_names)} | {own} | {source.checked_on} | {version} |"


def _reasons() -> Iterator[str]:
    yield "Where a tool does not send exactly what the SDK sends:"
    yield ""
    for plugin in sorted(SDKS):
        recorded = stored(plugin)
        for one in (*recorded["equivalent"], *recorded["differences"]):
            yield f"- `{plugin}`, {_place(one)}: {one['reason']}"
        for operation in recorded["operations"]:
            for one in operation["differences"]:
                yield f"- `{operation['tool']}`, {_place(one)}: {one['reason']}"


def _place(one: dict[str, str]) -> str:
    return f"`{one.get('at') or one['form']}`"


def with_block(page: str) -> str:
    """Return the page with the block as it is now."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{render()}{after}"


def main() -> None:
    """Write the block."""
    PAGE.write_text(with_block(PAGE.read_text()))


if __name__ == "__main__":
    main()
