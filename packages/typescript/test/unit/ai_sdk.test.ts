/** Tools for the Vercel AI SDK: their results, errors and signals. */

import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import { type AiSdkTool, Gateway, ToolContent, ToolFailed } from "@utcp-gateway/client";
import { type Peer, peer } from "./peer.js";

const SCHEMA = { type: "object", properties: { q: { type: "string" } } };
const IMAGE = [{ type: "text", text: "A map" }, { type: "image-data", data: "AAE=", mediaType: "image/png" }];
let server: Peer;
let tool: AiSdkTool;

beforeEach(async () => {
  server = await peer();
  const tools = { shop_find: { description: "Find.", inputSchema: SCHEMA, strict: true } };
  server.answers.push({ body: { tools, report: {} } });
  const found = await new Gateway({ url: server.url, key: "k" }).aiSdkTools("find", { strict: true, maxBytes: 500 });
  tool = found["shop_find"] ?? assert.fail();
});

afterEach(() => server.close());

function result(output: object): void {
  const messages = [{ role: "tool", content: [{ type: "tool-result", toolCallId: "call_1", toolName: "shop_find", output }] }];
  server.answers.push({ body: { format: "ai-sdk", messages, results: [], cut: null } });
}

test("a call is one of the dialect ai-sdk, with the options of the export", async () => {
  result({ type: "json", value: { total: 1 } });
  assert.deepEqual(await tool.execute({ q: "sea" }, { toolCallId: "call_1" }), { total: 1 });
  const [exported, called] = server.received;
  assert.equal(exported?.path, "/tools/export?q=find&format=ai-sdk&strict=true");
  assert.equal(called?.path, "/tool-calls?format=ai-sdk&strict=true&max_bytes=500");
  assert.deepEqual(JSON.parse(called.body), [{ type: "tool-call", toolCallId: "call_1", toolName: "shop_find", input: { q: "sea" } }]);
  assert.equal(tool.strict, true);
  assert.deepEqual(tool.inputSchema["~standard"].jsonSchema.input({ target: "draft-07" }), SCHEMA);
  assert.deepEqual(tool.inputSchema["~standard"].validate(7), { value: 7 });
});

for (const output of [{ type: "json", value: [1] }, { type: "text", value: "a" }, { type: "content", value: IMAGE }]) {
  test(`the model is given a result of the type ${output.type} as the gateway wrote it`, async () => {
    result(output);
    const found = await tool.execute({}, { toolCallId: "call_1" });
    assert.equal(found instanceof ToolContent, output.type === "content");
    assert.deepEqual(tool.toModelOutput({ output: found }), output);
  });
}

test("JSON of an upstream that looks like content is JSON", async () => {
  const value = { type: "content", value: IMAGE };
  result({ type: "json", value });
  assert.deepEqual(tool.toModelOutput({ output: await tool.execute({}, { toolCallId: "call_1" }) }), { type: "json", value });
});

test("a result that is an error is thrown", async () => {
  result({ type: "error-text", value: "HTTP 404 from shop" });
  await assert.rejects(tool.execute({}, { toolCallId: "call_1" }), (error) => error instanceof ToolFailed && error.message === "HTTP 404 from shop");
});

test("the signal of the AI SDK ends the call", async () => {
  server.answers.push({ silent: true });
  const controller = new AbortController();
  const rejected = assert.rejects(tool.execute({}, { toolCallId: "call_1", abortSignal: controller.signal }), { name: "AbortError" });
  while (server.received.length < 2) await new Promise(setImmediate);
  controller.abort();
  await rejected;
  await server.left;
});
