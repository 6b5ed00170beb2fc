"""A test gives what we wrote other parameters; it does not replace parts of it while it runs."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
# Files without such a line need not be parsed, which takes four seconds for all.
MAY_PATCH = re.compile(
    r"(?:set|del)attr|mock|^ *del |^[^#=\n]*(?:\._[a-z]|\bservices\.)[^=\n]*[^=!<>\n]=[^=]", re.MULTILINE
)

# Libraries that peers and released clients use, and which have no parameter for it.
OF_LIBRARIES = {
    "tests/interop/suites/client_side/swap.py": {"aiohttp.ClientSession._request"},
    "tests/protocols/peers/webrtc.py": {
        "ice._local_candidates",
        "ice._local_candidates_end",
        "ice._local_candidates_start",
    },
    "tests/protocols/packages/test_webrtc.py": {"channel.transport._remote_max_message_size"},
}
# Theirs is no parameter yet: a line may leave this list, and none may come.
LEFT = {
    "tests/api/agents/mcp/test_oauth.py": {"application.services.access_tokens._keys._tried_at"},
    "tests/api/search/usage/test_administration.py": {
        "api.usage._maintain_at",
        "small.usage._maintain_at",
        "usage._keys_changed",
        "usage._must_reload",
    },
    "tests/api/toolsets/test_presets.py": {"api.services.calls.bodies"},
    "tests/harness/access.py": {"self.database._autocommit_sessions", "self.database._sessions"},
    "tests/harness/cases.py": {"run._axes_of_cases", "run._body_of_cases"},
    "tests/integration/search/vectors/test_service.py": {"vectors._file"},
}


def _targets(node: ast.AST) -> list[ast.expr]:
    """Return what a statement assigns to or deletes, without the parentheses around several."""
    match node:
        case ast.Assign(targets=targets) | ast.Delete(targets=targets):
            pass
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            targets = [target]
        case _:
            return []
    return [part for target in targets for part in (getattr(target, "elts", None) or [target])]


def _chain(node: ast.expr) -> list[str]:
    """Return the names of `a.b[0].c` as [a, b, c]; the first is "" for what is no name."""
    match node:
        case ast.Attribute(value=value, attr=name):
            return [*_chain(value), name]
        case ast.Subscript(value=value) | ast.Call(func=value) | ast.Starred(value=value):
            return _chain(value)
        case ast.Name(id=name):
            return [name]
    return [""]


def _is_of_others(target: ast.expr) -> bool:
    """Return whether the target is a private attribute of another object, or a part of running services."""
    if not isinstance(target, ast.Attribute):
        return False
    base, *names = _chain(target)
    own = names[1:] if base in ("self", "cls") else names
    private = any(name.startswith("_") and not name.startswith("__") for name in own)
    return private or "services" in [base, *names][:-1]


def find_patches(source: str) -> set[str]:
    """Return the attributes of other objects that a file assigns, and its calls and imports that patch."""
    found: set[str] = set()
    if not MAY_PATCH.search(source):
        return found
    for node in ast.walk(ast.parse(source)):
        found.update(ast.unparse(target) for target in _targets(node) if _is_of_others(target))
        match node:
            case ast.Call(func=ast.Attribute(attr="setattr" | "delattr") as function):
                found.add(ast.unparse(function))
            case ast.ImportFrom(module=str(module)) if module.partition(".")[0] in ("mock", "pytest_mock"):
                found.add(module)
            case ast.ImportFrom(module="unittest" | "unittest.mock"):
                found.add("unittest.mock")
            case ast.Import(names=names):
                found.update(name.name for name in names if name.name in ("unittest.mock", "mock"))
    return found


def test_no_test_patches_what_we_wrote():
    found = {
        str(path.relative_to(ROOT)): patches
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if (patches := find_patches(path.read_text()))
    }
    assert found == OF_LIBRARIES | LEFT


def test_each_way_of_patching_is_found():
    ways = {
        "from unittest import mock": "unittest.mock",
        "import unittest.mock": "unittest.mock",
        "from unittest.mock import patch": "unittest.mock",
        "from pytest_mock import MockerFixture": "pytest_mock",
        'monkeypatch.setattr("app.calls.plan._SECONDS", 1)': "monkeypatch.setattr",
        'patcher.delattr(plan, "name")': "patcher.delattr",
        "engine.pool._probation = 0.0": "engine.pool._probation",
        "self.engine._probation, own = 0.0, 1": "self.engine._probation",
        "application.services.tokens._tried_at -= 10": "application.services.tokens._tried_at",
        "api.services.calls.bodies = None": "api.services.calls.bodies",
        "services.streams.stall = 0.2": "services.streams.stall",
        "del keys()._cached[0]._entry": "keys()._cached[0]._entry",
    }
    assert {line: find_patches(line) for line in ways} == {line: {name} for line, name in ways.items()}


def test_own_attributes_and_public_ones_are_left_alone():
    source = """
self._count = 1
self._site.status = 503
upstream.status = 503
gateway.services = replace(gateway.services, keys=keys)
run.__signature__ = signature
_counted += 1
"""
    assert find_patches(source) == set()
