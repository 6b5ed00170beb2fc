// As client_python.py, by the official TypeScript clients and that of the AI SDK.
import { createInterface } from "node:readline";

async function connect(url, requestInit, kind, mode) {
  const info = { name: "test", version: "1" };
  if (kind === "ts1") {
    const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
    const { StreamableHTTPClientTransport } = await import("@modelcontextprotocol/sdk/client/streamableHttp.js");
    const made = new Client(info);
    await made.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));
    return made;
  }
  const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
  const versionNegotiation = { legacy: undefined, auto: { mode: "auto" }, pinned: { mode: { pin: "2026-07-28" } } }[mode];
  const made = new Client(info, versionNegotiation ? { versionNegotiation } : {});
  await made.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));
  return made;
}

const shown = (result) => [Boolean(result.isError), result.content.map((one) => [one.type, one.text ?? one.mimeType ?? ""])];
async function run(url, key, calls, client, wanted) {
  const headers = { Authorization: `Bearer ${key}` };
  const [kind, mode] = client.split("/");
  const reports = [];
  const onprogress = ({ progress, total, message }) => reports.push([progress, total ?? null, message ?? null]);
  const options = wanted === "progress" ? { onprogress } : undefined;
  let names;
  let call;
  let close;
  if (kind === "ai-sdk") {
    const { createMCPClient } = await import("@ai-sdk/mcp");
    const made = await createMCPClient({ transport: { type: "http", url, headers } });
    const tools = await made.tools();
    names = Object.keys(tools);
    call = (name, input) => tools[name].execute(input, { toolCallId: "1", messages: [] });
    close = () => made.close();
  } else {
    const made = await connect(url, { headers }, kind, mode);
    names = [];
    let cursor;
    do {
      const page = await made.listTools(cursor ? { cursor } : {});
      names.push(...page.tools.map((tool) => tool.name));
      cursor = page.nextCursor;
    } while (cursor);
    call = (name, input) => {
      const params = { name, arguments: input };
      return kind === "ts1" ? made.callTool(params, undefined, options) : made.callTool(params, options);
    };
    close = () => made.close();
  }
  const results = [];
  for (const [name, input] of calls) {
    try {
      results.push(shown(await call(name, input)));
    } catch (error) {
      results.push(["raised", String(error.message)]);
    }
  }
  await close();
  return { tools: names, results, progress: reports };
}

for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await run(...JSON.parse(line))));
}
