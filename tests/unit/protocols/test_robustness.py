"""Whatever a stranger sends, the answer is a result or one of our own errors."""

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import InvalidArguments, InvalidDocument, InvalidInput
from app.formats.utcp.auth import convert_auth
from app.protocols.call_templates import read_template
from app.protocols.manuals import detect_kind, read_manual
from app.protocols.requests.plan_compiler import compile_plan
from tests.harness.examples import examples

KEYS = [
    "name", "tools", "version", "utcp_version", "tool_provider", "tool_call_template", "provider_type",
    "call_template_type",
    "url", "http_method", "headers", "auth", "auth_type", "api_key", "location", "inputs", "type",
    "tags", "body_field",
    "header_fields", "parameters", "body", "content_type", "encoding", "in", "input", "style",
]  # fmt: skip
WORDS = [
    "http",
    "mcp",
    "GET",
    "https://h/{a}",
    "api_key",
    "oauth2",
    "object",
    "header",
    "a",
    "path",
    "form",
    "\x00",
    "${X}",
]
leaves = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(WORDS) | st.text(max_size=3)
)
anything = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
    max_leaves=20,
)
template = st.fixed_dictionaries(
    {"call_template_type": st.just("http"), "url": st.just("https://h/{a}") | anything},
    optional=dict.fromkeys(KEYS[9:13] + KEYS[18:23], anything),
)


@examples(40)
@given(
    entries=st.lists(anything | st.fixed_dictionaries({"name": leaves, "tool_provider": template | anything}))
)
def test_manuals(entries):
    manual = read_manual({"version": "1", "tools": entries})
    assert len(manual.tools) + len(manual.rejected_tools) == len(entries)


@examples(40)
@given(raw=anything)
def test_documents(raw):
    detect_kind(raw)
    for read in (read_manual, read_template, convert_auth):
        with contextlib.suppress(InvalidDocument, InvalidInput):
            read(raw)


@examples(40)
@given(raw=template)
def test_templates_compile_or_say_why(raw):
    try:
        compile_plan(raw)
    except InvalidInput as error:
        faults = error.errors
    else:
        return
    assert faults


MEDIA = [
    "application/json", "application/x-www-form-urlencoded", "multipart/form-data",
    "application/octet-stream",
    "text/plain; charset=latin-1", "application/xml",
]  # fmt: skip
PLANS = [
    compile_plan(
        {
            "url": "https://h/{a}", "http_method": "POST",
            "parameters": [
                {"input": "a", "name": "a", "in": "path"},
                {"input": "b", "name": "b", "in": "query", "style": style},
                {"input": "c", "name": "c", "in": "header"},
                {"input": "d", "name": "d", "in": "cookie"},
            ],
            "body": {"input": "e", "content_type": media, "encoding": {"url": {"content_type": "image/png"}}},
        }
    )
    for media in MEDIA
    for style in ("form", "deepObject", "pipeDelimited")
]  # fmt: skip
PLANS.append(
    compile_plan({"url": "https://h/{a}", "http_method": "POST", "header_fields": ["c"], "body_field": "e"})
)


@examples(40)
@given(plan=st.sampled_from(PLANS), arguments=st.fixed_dictionaries(dict.fromkeys("abcde", anything)))
def test_arguments_are_placed_or_rejected_with_a_pointer(plan, arguments):
    try:
        plan.prepare(arguments)
    except InvalidArguments as error:
        faults = error.errors
    else:
        return
    assert faults
