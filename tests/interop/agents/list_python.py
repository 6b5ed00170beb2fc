"""Lists the tools of a server as an agent of a released framework does: client, URL and key as arguments.

Prints the names that the framework would give to a model. Where a framework writes the tools for a provider itself, it has to do that, too.
"""

import asyncio
import contextlib
import json
import sys


async def _llama_index(url, headers):
    from llama_index.tools.mcp import BasicMCPClient, McpToolSpec

    tools = await McpToolSpec(client=BasicMCPClient(url, headers=headers)).to_tool_list_async()
    return [tool.metadata.to_openai_tool()["function"]["name"] for tool in tools]


async def _autogen(url, headers):
    from autogen_ext.tools.mcp import StreamableHttpServerParams, mcp_server_tools

    return [
        tool.schema["name"]
        for tool in await mcp_server_tools(StreamableHttpServerParams(url=url, headers=headers))
    ]


async def _mcp_use(url, headers):
    from mcp_use import MCPClient
    from mcp_use.agents.adapters.langchain_adapter import LangChainAdapter

    client = MCPClient({"mcpServers": {"gateway": {"url": url, "headers": headers}}})
    try:
        tools = await LangChainAdapter().create_tools(client)
    finally:
        await client.close_all_sessions()
    return [tool.name for tool in tools]


async def _pydantic_ai(url, headers):
    from pydantic_ai import RunContext
    from pydantic_ai.mcp import MCPToolset
    from pydantic_ai.models.test import TestModel
    from pydantic_ai.usage import RunUsage

    async with MCPToolset(url, headers=headers) as toolset:
        context = RunContext(deps=None, model=TestModel(), usage=RunUsage())
        return [tool.tool_def.name for tool in (await toolset.get_tools(context)).values()]


async def _smolagents(url, headers):
    def listed():
        from smolagents import ToolCollection

        parameters = {"url": url, "transport": "streamable-http", "headers": headers}
        with ToolCollection.from_mcp(
            parameters, trust_remote_code=True, structured_output=False
        ) as collection:
            return [tool.name for tool in collection.tools]

    return await asyncio.to_thread(listed)


async def _agno(url, headers):
    from agno.tools.mcp import MCPTools
    from agno.tools.mcp.params import StreamableHTTPClientParams

    parameters = StreamableHTTPClientParams(url=url, headers=headers)
    async with MCPTools(transport="streamable-http", server_params=parameters) as tools:
        return [function.to_dict()["name"] for function in tools.functions.values()]


async def _haystack(url, headers):
    def listed():
        from haystack_integrations.tools.mcp import MCPToolset, StreamableHttpServerInfo

        toolset = MCPToolset(StreamableHttpServerInfo(url=url, headers=headers), eager_connect=True)
        names = [tool.tool_spec["name"] for tool in toolset]
        toolset.close()
        return names

    return await asyncio.to_thread(listed)


async def _strands(url, headers):
    def listed():
        from strands.tools.mcp import MCPClient

        with MCPClient(url=url, headers=headers) as client:
            return [tool.tool_spec["name"] for tool in client.list_tools_sync()]

    return await asyncio.to_thread(listed)


async def _semantic_kernel(url, headers):
    from semantic_kernel import Kernel
    from semantic_kernel.connectors.mcp import MCPStreamableHttpPlugin

    async with MCPStreamableHttpPlugin(name="gateway", url=url, headers=headers) as plugin:
        kernel = Kernel()
        kernel.add_plugin(plugin)
        return [one.name for one in kernel.get_full_list_of_function_metadata()]


async def _google_adk(url, headers):
    from google.adk.tools.mcp_tool import McpToolset, StreamableHTTPConnectionParams

    toolset = McpToolset(connection_params=StreamableHTTPConnectionParams(url=url, headers=headers))
    try:
        return [tool._get_declaration().name for tool in await toolset.get_tools()]
    finally:
        await toolset.close()


async def _crewai(url, headers):
    def listed():
        from crewai_tools import MCPServerAdapter

        with MCPServerAdapter({"url": url, "transport": "streamable-http", "headers": headers}) as tools:
            return [tool.name for tool in tools]

    return await asyncio.to_thread(listed)


async def _with_session(url, headers, use):
    from mcp import ClientSession
    from mcp.client import streamable_http

    async with contextlib.AsyncExitStack() as stack:
        if hasattr(streamable_http, "streamablehttp_client"):
            opened = streamable_http.streamablehttp_client(url, headers=headers)
        else:
            import httpx2

            http = await stack.enter_async_context(httpx2.AsyncClient(headers=headers))
            opened = streamable_http.streamable_http_client(url, http_client=http)
        read, write, *_ = await stack.enter_async_context(opened)
        session = await stack.enter_async_context(ClientSession(read, write))
        await session.initialize()
        return await use(session)


async def _dspy(url, headers):
    import dspy

    async def listed(session):
        found = (await session.list_tools()).tools
        return [
            dspy.Tool.from_mcp_tool(session, tool).format_as_litellm_function_call()["function"]["name"]
            for tool in found
        ]

    return await _with_session(url, headers, listed)


async def _litellm(url, headers):
    from litellm import experimental_mcp_client

    async def listed(session):
        return [
            one["function"]["name"]
            for one in await experimental_mcp_client.load_mcp_tools(session=session, format="openai")
        ]

    return await _with_session(url, headers, listed)


async def _openai_agents(url, headers):
    from agents.mcp import MCPServerStreamableHttp, MCPUtil

    async with MCPServerStreamableHttp(params={"url": url, "headers": headers}) as server:
        tools = await server.list_tools()
        return [MCPUtil.to_function_tool(tool, server, convert_schemas_to_strict=True).name for tool in tools]


async def _langchain(url, headers):
    from langchain_core.utils.function_calling import convert_to_openai_tool
    from langchain_mcp_adapters.client import MultiServerMCPClient

    client = MultiServerMCPClient(
        {"gateway": {"transport": "streamable_http", "url": url, "headers": headers}}
    )
    return [convert_to_openai_tool(tool)["function"]["name"] for tool in await client.get_tools()]


CLIENTS = {
    "agno-mcp": _agno, "autogen-mcp": _autogen, "crewai-mcp": _crewai, "dspy-mcp": _dspy, "google-adk": _google_adk,
    "haystack-mcp": _haystack, "langchain-mcp": _langchain, "litellm-mcp": _litellm, "llama-index-mcp": _llama_index, "mcp-use": _mcp_use,
    "openai-agents": _openai_agents, "pydantic-ai-mcp": _pydantic_ai, "semantic-kernel-mcp": _semantic_kernel,
    "smolagents-mcp": _smolagents, "strands-mcp": _strands,
}  # fmt: skip

if __name__ == "__main__":
    name, address, key = sys.argv[1:4]
    names = asyncio.run(CLIENTS[name](address, {"Authorization": f"Bearer {key}"}))
    print(json.dumps(sorted(names)))
