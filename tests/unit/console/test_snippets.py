"""Snippets of a call: their literals are the arguments, in each language."""

import ast
import json
import shlex
import shutil
import subprocess
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.console.views.snippets import literal, snippets
from app.console.views.values import has_invisible

HOSTILE: dict[str, Any] = {
    "q": 'it\'s "quoted" $HOME `id` $(id) \\n \\ ; #',
    "lines": "a\nb\r\nc\t\x00\x1b",
    "hidden": "a\u202eb\u200b\U000e0041\u2028",
    "emoji": "👩‍💻",
    "__proto__": {"x": 1},
    "n": [1, -2.5e300, True, False, None, 2**50, [], {}],
    "long": ["x" * 50, {"deeper": "y" * 60}],
}
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4),
)  # fmt: skip


@given(values)
def test_literal_is_the_value_in_json_and_python(value: Any) -> None:
    assert json.loads(literal(value, "json")) == value
    assert ast.literal_eval(literal(value, "python")) == value
    assert not has_invisible(literal(value, "json") + literal(value, "python"))


def test_literal_is_the_value_in_javascript() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    program = f"process.stdout.write(JSON.stringify({literal(HOSTILE, 'script')}))"
    shown = subprocess.run(
        [node, "--eval", program], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    assert json.loads(shown) == HOSTILE


def test_shell_gets_the_arguments_as_one_word() -> None:
    text = (
        snippets(
            "library.searchBooks", HOSTILE, base_url="http://127.0.0.1:8000/", alias="library_searchBooks"
        )[0]
        .parts[0]
        .text
    )
    words = shlex.split(text.replace("\\\n", ""))
    assert json.loads(words[words.index("--data-raw") + 1]) == HOSTILE
    assert "$UTCP_GATEWAY_URL/tools/library.searchBooks/call" in words


def test_no_snippet_has_a_key() -> None:
    for snippet in snippets("a.b", {}, base_url="https://gateway.example", alias="a_b"):
        text = "".join(part.text for part in snippet.parts)
        assert "UTCP_GATEWAY_KEY" in text or snippet.name == "openai"
        assert "ugw_" not in text


@pytest.mark.parametrize("name", ["python", "openai", "anthropic"])
def test_python_can_be_compiled(name: str) -> None:
    found = {
        one.name: one for one in snippets("a.b", HOSTILE, base_url="https://gateway.example", alias="a_b")
    }
    compile(found[name].parts[-1].text, name, "exec")
