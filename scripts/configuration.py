"""Write `docs/configuration.md` and `.env.example` from the settings (`make configuration`).

The sections are the comments between the fields of the settings classes; the names, defaults, bounds and
descriptions are those of the fields. `tests/unit/core/settings` fails where a file is not what this renders.
"""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from app.core.settings import Settings

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "configuration.md"
EXAMPLE = ROOT / ".env.example"

_HEADING = re.compile(r"    # (\w[^.]*)")
_FIELD = re.compile(r"    (\w+): ")
_SET_BY_THE_GATEWAY = frozenset({"embedded"})
COMPOSE = (
    ("POSTGRES_PASSWORD", "", "Password of the service `postgres`; letters and digits only. Required."),
    ("REDIS_PASSWORD", "", "Password of the service `redis`; letters and digits only. Required."),
    ("GATEWAY_ADDRESS", "127.0.0.1:8000", "Address and port on which nginx is published."),
    ("UBP_GRPC_ADDRESS", "127.0.0.1:50051", "Address and port on which nginx is published for gRPC."),
)
"""Variables of `docker-compose.yml` that are no settings: name, default and description."""
_COMPOSE_HEADING = "Docker Compose"
_COMPOSE_TEXT = """\
For `docker-compose.yml` only, which passes on every setting of `.env` but PORT, UBP_GRPC_PORT and
FORWARDED_ALLOW_IPS, and requires SEALING_KEYS and PUBLIC_BASE_URL. Without DATABASE_URL and REDIS_URL it
uses its own services.
"""
_INTRODUCTION = """# Configuration

<!-- Written by `make configuration` from app/core/settings; do not edit. -->

Every setting is an environment variable, or a line of the file `.env` in the working directory; the
environment wins. They are read once, at the start. Times are in seconds, sizes in bytes, lists are separated
by commas; an empty value counts as unset. A value that is not valid ends the start with one line that names
the setting, never the value. [`.env.example`](../.env.example) has the same list to copy.

The options of one provider (its own limits, retries, cache, proxy) are not settings: see
[operations.md](operations.md).
"""
_EXAMPLE_HEAD = """# Every setting of utcp-gateway. Copy to .env and uncomment what you change.
# Times are in seconds, sizes in bytes, lists are separated by commas.
# Written by `make configuration` from app/core/settings; do not edit.
"""


def sections() -> Iterator[tuple[str, list[str]]]:
    """Yield each heading with the names of its settings, in the order of the source."""
    documented = Settings.model_fields.keys() - _SET_BY_THE_GATEWAY
    heading, names = "", list[str]()
    for owner in Settings.__mro__:
        if owner.__module__.partition(".")[0] != "app":
            continue
        for line in inspect.getsource(owner).splitlines():
            if title := _HEADING.fullmatch(line):
                if names:
                    yield heading, names
                heading, names = title[1], []
            elif (field := _FIELD.match(line)) and field[1] in documented:
                names.append(field[1])
    if names:
        yield heading, names


def default_of(field: FieldInfo) -> str:
    """Return the default as it would be written in the environment; "" for one that is unset."""
    value: Any = field.default
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def bounds_of(field: FieldInfo) -> str:
    """Return the constraints of a setting as text; "" where its type is the only one."""
    constraints = []
    if get_origin(field.annotation) is Literal:
        return " or ".join(f"`{value}`" for value in get_args(field.annotation))
    for bound in field.metadata:
        for name, words in (("gt", "> {}"), ("ge", ">= {}"), ("lt", "< {}"), ("le", "<= {}")):
            if (value := getattr(bound, name, None)) is not None:
                constraints.append(words.format(value))
    return ", ".join(constraints)


def render_page() -> str:
    """Return `docs/configuration.md`."""
    pieces = [_INTRODUCTION]
    for heading, names in sections():
        pieces.append(f"\n## {heading}\n\n| setting | default | valid | description |\n|---|---|---|---|\n")
        for name in names:
            field = Settings.model_fields[name]
            default = default_of(field)
            shown = f"`{default}`" if default else "unset"
            description = str(field.description).replace("|", "\\|")
            pieces.append(f"| `{name.upper()}` | {shown} | {bounds_of(field)} | {description} |\n")
    pieces.append(
        f"\n## {_COMPOSE_HEADING}\n\n{_COMPOSE_TEXT}\n| variable | default | description |\n|---|---|---|\n"
    )
    for variable, value, text in COMPOSE:
        pieces.append(f"| `{variable}` | {f'`{value}`' if value else 'unset'} | {text} |\n")
    return "".join(pieces)


def render_example() -> str:
    """Return `.env.example`: every setting and variable of Compose commented out, with its default."""
    pieces = [_EXAMPLE_HEAD]
    for heading, names in sections():
        pieces.append(f"\n# -- {heading} --\n")
        for name in names:
            field = Settings.model_fields[name]
            pieces.append(f"\n# {field.description}\n# {name.upper()}={default_of(field)}\n")
    pieces.append(f"\n# -- {_COMPOSE_HEADING} --\n\n")
    pieces += [f"# {line}\n" for line in _COMPOSE_TEXT.splitlines()]
    pieces += [f"\n# {text}\n# {variable}={value}\n" for variable, value, text in COMPOSE]
    return "".join(pieces)


if __name__ == "__main__":
    PAGE.write_text(render_page(), encoding="utf-8")
    EXAMPLE.write_text(render_example(), encoding="utf-8")
