"""Path templates and their placeholders, each of which becomes a required input.

Documents declare parameters that the path does not have, use placeholders that they do not declare, and write
RFC 6570 operators or router patterns (`{id:[0-9]+}`, `{path*}`, `{?page}`) where OpenAPI has plain names.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from app.openapi.conversion.parameters import Parameter, build_undeclared_parameter
from app.openapi.report import OperationProblem

_PLACEHOLDER = re.compile(r"\{([^{}/?#]+)\}")
_OPERATOR = re.compile(r"\{[+.;]?([A-Za-z0-9_.-]+)(?:\*|:[^{}]*)?\}")
_NOT_ALPHANUMERIC = re.compile(r"[^a-z0-9]")


def match_placeholders(
    path: str, parameters: Sequence[Parameter], *, notes: list[str]
) -> tuple[str, list[Parameter]]:
    """Return the path with plain placeholders, and all parameters, with one for each placeholder.

    Raises OperationProblem for a path that cannot be part of a URL.
    """
    declared = {parameter.name for parameter in parameters if parameter.location == "path"}
    route = _replace_operators(path, declared)
    if re.search(r"[\x00-\x1f\x7f\\]", route):
        raise OperationProblem("has a path with control characters or backslashes")
    placeholders = dict.fromkeys(_PLACEHOLDER.findall(route.split("#", 1)[0]))
    in_query = set(_PLACEHOLDER.findall(route.split("#", 1)[0].partition("?")[2]))
    undeclared = {name for name in placeholders if name not in declared}
    fitted: list[Parameter] = []
    for parameter in parameters:
        if parameter.location == "path" and parameter.name not in placeholders:
            match = next(
                (name for name in placeholders if name in undeclared and _is_same_name(name, parameter.name)),
                None,
            )
            if match is None:
                notes.append(
                    f"path parameter `{parameter.name}` is left out: the path has no placeholder for it"
                )
                continue
            notes.append(f"path parameter `{parameter.name}` fills `{{{match}}}`")
            undeclared.discard(match)
            fitted.append(replace(parameter, name=match))
        elif parameter.location == "query" and parameter.name in undeclared & in_query:
            # `/search?q={q}` with a declared query parameter `q`: it is sent once, where the template says.
            undeclared.discard(parameter.name)
            fitted.append(replace(parameter, location="path", style="simple", explode=False, required=True))
        else:
            fitted.append(parameter)
    for name in placeholders:
        if name in undeclared:
            notes.append(f"the path's `{{{name}}}` is not declared; it became a required text")
            fitted.append(build_undeclared_parameter(name))
    return route, fitted


def _replace_operators(path: str, declared: set[str]) -> str:
    def replace_operator(match: re.Match[str]) -> str:
        written = match[0][1:-1]
        return match[0] if written in declared else f"{{{match[1]}}}"

    return _OPERATOR.sub(replace_operator, path)


def _is_same_name(name: str, other: str) -> bool:
    return _NOT_ALPHANUMERIC.sub("", name.lower()) == _NOT_ALPHANUMERIC.sub("", other.lower()) != ""
