/** A scripted server of Chat Completions. */

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

/** Serve Chat Completions: the calls first, then a text; return the bodies of its requests. */
export async function chatServer(calls: [string, object][]): Promise<{ url: string; bodies: any[]; close: () => void }> {
  const bodies: any[] = [];
  const server = createServer(async (request, response) => {
    let text = "";
    for await (const part of request) text += part;
    const first = bodies.push(JSON.parse(text)) === 1;
    const toolCalls = calls.map(([name, given], index) => ({
      id: `call_${index}`, type: "function", function: { name, arguments: JSON.stringify(given) },
    }));
    const message = { role: "assistant", content: first ? null : "Done.", ...(first ? { tool_calls: toolCalls } : {}) };
    response.setHeader("Content-Type", "application/json");
    response.end(
      JSON.stringify({
        id: "x", object: "chat.completion", created: 1, model: "m",
        choices: [{ index: 0, finish_reason: first ? "tool_calls" : "stop", message }],
        usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
      }),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const close = (): void => {
    server.close();
    server.closeAllConnections();
  };
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, bodies, close };
}
