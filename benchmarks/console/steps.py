"""A browser session of an operator as a list of requests, and its replay over HTTP."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

STATIC = re.compile(r"/console/static/[0-9a-f]+/[\w.-]+")


@dataclass(frozen=True, slots=True)
class Step:
    """A request after `think` seconds; `fragment` is the part of the page that a script loads, and a stream
    is read for `follow` seconds.
    """

    think: float
    path: str
    fragment: str = ""
    follow: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """Return the step as a line of a plan has it."""
        return asdict(self)


def operator_steps(tool: str, provider: str) -> Sequence[Step]:
    """Return the session: tools are searched as one types, one is read, calls are followed for a while."""
    return (
        Step(1, "/console"),
        Step(4, "/console/tools"),
        Step(2, "/console/tools?q=ba", "results"),
        Step(1.5, "/console/tools?q=bale+co", "results"),
        Step(5, f"/console/tools/{tool}"),
        Step(8, "/console/calls"),
        Step(4, "/console/calls?error=true", "results"),
        Step(3, "/console/calls?follow=1", "results"),
        Step(0.1, "/console/calls/stream", follow=8),
        Step(2, "/console/go?q=pro", "targets"),
        Step(1, "/console/providers"),
        Step(5, f"/console/providers/{provider}"),
        Step(6, "/console/keys"),
        Step(4, "/console/approvals"),
        Step(5, "/console/changes"),
        Step(6, "/console/tools?state=unused", "results"),
    )


def warm_steps(tool: str) -> Sequence[Step]:
    """Return the pages that the measurement of memory visits."""
    return (
        Step(0, "/console/tools"),
        Step(0, "/console/tools?q=bale", "results"),
        Step(0, f"/console/tools/{tool}"),
    )
