"""The summary says which providers there are and what their tools do, in at most 600 characters."""

from app.toolsets import AgentTool, Listing
from app.toolsets.meta_tools import meta_tools
from app.toolsets.meta_tools.summary import MAX_SUMMARY, summarise


def tool(provider, name):
    return AgentTool(
        name=f"{provider}_{name}"[:45],
        tool=f"{provider}.{name}",
        alias=f"{provider}_{name}",
        provider=provider,
        description="",
        inputs_json=b"{}",
        outputs_json=b"{}",
    ).stamped()


def test_the_summary_has_providers_and_verbs_by_their_counts():
    tools = [tool("library", name) for name in ("getBook", "getLoan", "search_books")]
    tools += [tool("weather", "get-forecast")]
    assert summarise(tools) == (
        "4 tools of 2 providers: library (3), weather (1). Frequent verbs: get, search."
    )


def test_one_tool_is_one_tool():
    assert summarise([tool("a", "42")]) == "1 tool of 1 provider: a (1)."


def test_an_empty_catalogue_is_said_to_be_empty():
    assert summarise([]) == "There are no tools at present."


def test_the_summary_of_a_large_catalogue_is_short():
    tools = [tool(f"provider-with-a-long-name-{number:03}", f"verb{number}") for number in range(300)]
    tools += [
        tool("largest", f"{word}Thing") for word in ("get", "list", "make", "send", "stop", "open", "read")
    ]
    summary = summarise(tools)
    assert len(summary) <= MAX_SUMMARY
    assert summary.startswith("307 tools of 301 providers: largest (7), provider-with-a-long-name-000 (1)")
    assert " more. Frequent verbs: " in summary


def test_the_order_of_the_tools_does_not_count():
    tools = [tool(provider, name) for provider in ("b", "a") for name in ("putX", "getX", "askX")]
    assert summarise(tools) == summarise(list(reversed(tools)))


def test_the_stamp_of_the_definitions_changes_with_the_catalogue():
    few = meta_tools(Listing.of([tool("a", "getX")]))
    same = meta_tools(Listing.of([tool("a", "getX")]))
    many = meta_tools(Listing.of([tool("a", "getX"), tool("b", "getY")]))
    assert [one.stamp for one in few] == [one.stamp for one in same]
    assert few[0].stamp != many[0].stamp
    assert [one.name for one in few] == [
        "find_tools",
        "describe_tools",
        "call_read_tool",
        "call_tool",
        "read_more",
    ]
    assert [one.read_only for one in few] == [True, True, True, False, True]
    assert [one.open_world for one in few] == [False, False, True, True, False]
    assert "1 tool of 1 provider: a (1)" in few[0].description
    assert len(many[0].description) <= 1024
