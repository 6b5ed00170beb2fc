"""The help of commands: values have words for people (NAME, FILE, NUMBER), not types of Python."""

from collections.abc import Iterable, Iterator
from typing import Any, Final, get_args

from typer.core import TyperArgument, TyperCommand, TyperOption

_NUMBERS: Final = (int, float)
_TIMES: Final = {"since": "TIME", "until": "TIME", "expires": "TIME", "overlap": "DURATION"}


class Command(TyperCommand):
    """A command whose usage and help name values by words."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the parts of the usage line: `[OPTIONS] NAME [FILE]...`."""
        arguments = [param for param in self.get_params(ctx) if isinstance(param, TyperArgument)]
        return [*([self.options_metavar] if self.options_metavar else []), *map(_write_usage, arguments)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments and the options, a section each."""
        params = self.get_params(ctx)
        write_section(formatter, ctx, "Arguments", (one for one in params if isinstance(one, TyperArgument)))
        write_section(formatter, ctx, "Options", (one for one in params if isinstance(one, TyperOption)))


def write_section(formatter: Any, ctx: Any, title: str, params: Iterable[Any]) -> None:
    """Write a section of the help with these parameters; nothing without any."""
    records = list(_list_records(params, ctx))
    if records:
        with formatter.section(title):
            formatter.write_dl(records)


def name_value(param: Any) -> str:
    """Return the word for the value of an option or an argument: its metavar where it has one, else its
    choices, FILE, NUMBER, or the last word of its name in capitals.
    """
    if param.metavar is not None:
        return str(param.metavar).removesuffix("...")
    described = param.type_descriptor
    if described.is_choice and described.choices is not None:
        return "|".join(str(getattr(choice, "value", choice)) for choice in described.choices)
    if described.is_path:
        return "FOLDER" if str(param.name).endswith("dir") else "FILE"
    annotation = described.annotation
    if (get_args(annotation) or (annotation,))[0] in _NUMBERS:
        return "NUMBER"
    if isinstance(param, TyperArgument):
        return str(param.name).upper().replace("_", "-")
    name = max(param.opts, key=len).lstrip("-")
    return str(_TIMES.get(name, name.rpartition("-")[2].upper()))


def _list_records(params: Iterable[Any], ctx: Any) -> Iterator[tuple[str, str]]:
    for param in params:
        record = param.get_help_record(ctx)
        if record is not None:
            yield _write_title(param), record[1]


def _write_title(param: Any) -> str:
    if isinstance(param, TyperArgument):
        return name_value(param) + ("..." if param.nargs != 1 else "")
    names = ", ".join(sorted(param.opts, key=len))
    if param.secondary_opts:
        return f"{names} / {', '.join(param.secondary_opts)}"
    return names if param.is_flag or param.count else f"{names} {name_value(param)}"


def _write_usage(argument: Any) -> str:
    name = name_value(argument)
    return (name if argument.required else f"[{name}]") + ("..." if argument.nargs != 1 else "")
