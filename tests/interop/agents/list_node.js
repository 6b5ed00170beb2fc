// As list_python.py, by frameworks of npm: client, URL and key as arguments.
const [client, url, key] = process.argv.slice(2);
const headers = { Authorization: `Bearer ${key}` };

const CLIENTS = {
  async "ai-sdk"() {
    const { createMCPClient } = await import("@ai-sdk/mcp");
    const made = await createMCPClient({ transport: { type: "http", url, headers } });
    const names = Object.keys(await made.tools());
    await made.close();
    return names;
  },
  async "langchain-js"() {
    const { MultiServerMCPClient } = await import("@langchain/mcp-adapters");
    const { convertToOpenAITool } = await import("@langchain/core/utils/function_calling");
    const made = new MultiServerMCPClient({ mcpServers: { gateway: { transport: "http", url, headers } } });
    const names = (await made.getTools()).map((tool) => convertToOpenAITool(tool).function.name);
    await made.close();
    return names;
  },
  async mastra() {
    const { MCPClient } = await import("@mastra/mcp");
    const made = new MCPClient({ servers: { gateway: { url: new URL(url), requestInit: { headers } } } });
    const names = Object.values(await made.listTools()).map((tool) => tool.id.replace(/^gateway_/, ""));
    await made.disconnect();
    return names;
  },
};

const names = await CLIENTS[client]();
console.log(JSON.stringify(names.sort()));
process.exit(0);
