/** The client at a running gateway (`UTCP_GATEWAY_URL`, `UTCP_GATEWAY_KEY`), which has the sample API as `library`. */

import assert from "node:assert/strict";
import { before, test } from "node:test";
import { inspect } from "node:util";
import { ApprovalPending, Conflict, Gateway, InvalidArguments, NotFound, PermissionDenied, type ToolCallResult, UnknownTools } from "@utcp-gateway/client";
import { asSchema as asSchema7, type ToolSet as ToolSet7 } from "ai";
import { asSchema as asSchema6, type ToolSet as ToolSet6 } from "ai6";

const TOOL = "library.searchBooks";
const QUERY = { q: "sea", limit: 3 };
const CALL = { id: "call_1", type: "function", function: { name: "library_searchBooks", arguments: JSON.stringify(QUERY) } };
const MESSAGE = { role: "assistant", content: null, tool_calls: [CALL] };
const gateway = new Gateway();
let expected: { items: object[] };

before(async () => {
  expected = await gateway.call(TOOL, QUERY);
  assert.ok(expected.items.length > 0);
});

test("health and the key", async () => {
  assert.equal((await gateway.health()).status, "ready");
  assert.ok((await gateway.me()).scopes.length > 0);
});

test("tools are searched, exported, read and listed", async () => {
  const hits = await gateway.search("search books in the library", { limit: 3, provider: "library" });
  assert.ok(hits.some((hit) => hit.name === TOOL));
  const [tool] = await gateway.tools([TOOL]);
  assert.equal(tool.function.name, "library_searchBooks");
  const found = await gateway.export("find a book", { format: "anthropic", provider: "library" });
  assert.ok(Array.isArray(found.tools) && "input_schema" in (found.tools[0] ?? {}));
  assert.equal((await gateway.tool(TOOL)).name, TOOL);
  const names: string[] = [];
  for await (const each of gateway.listTools({ provider: "library" })) names.push(each.name);
  assert.ok(names.includes(TOOL));
  for await (const toolset of gateway.toolsets()) assert.ok(toolset.name);
});

test("unknown tools", async () => {
  await assert.rejects(gateway.tools(["library.none"]), (error) => error instanceof UnknownTools && error.names[0] === "library.none");
  await assert.rejects(gateway.call("library.searchBook"), (error) => error instanceof NotFound && error.suggestions.includes(TOOL));
});

test("arguments that are not valid have pointers", async () => {
  await assert.rejects(gateway.call(TOOL, { limit: "many" }), (error) => {
    return error instanceof InvalidArguments && error.errors[0]?.pointer === "/limit" && error.callId !== undefined;
  });
});

test("a call with the same Idempotency-Key is made once", async () => {
  const idempotencyKey = crypto.randomUUID();
  const first = await gateway.callResult(TOOL, QUERY, { idempotencyKey });
  const second = await gateway.callResult(TOOL, QUERY, { idempotencyKey });
  assert.deepEqual([first.replayed, second.replayed], [false, true]);
  assert.deepEqual(first.value, second.value);
});

test("the rest of a result that was cut", async () => {
  const cut = await gateway.callResult(TOOL, { limit: 20 }, { maxBytes: 600 });
  const rest: unknown[] = [];
  for await (const part of gateway.readMore(cut, { maxBytes: 600 })) rest.push(...(part.items ?? []));
  const whole = await gateway.callResult(TOOL, { limit: 20 });
  assert.deepEqual([...(cut.value as typeof expected).items, ...rest], (whole.value as typeof expected).items);
  for await (const part of gateway.readMore(whole)) assert.fail(JSON.stringify(part));
});

test("a streamed call", async () => {
  const stream = gateway.stream(TOOL, QUERY);
  const events: unknown[] = [];
  for await (const event of stream) events.push(event.data);
  assert.deepEqual(events, [expected]);
  assert.equal(stream.end?.upstream_status, 200);
});

test("a call that waits for approval returns its value once another key has approved it", async () => {
  const agent = new Gateway({ key: process.env["AGENT_KEY"] });
  const pending = await agent.call("library.getOpeningHours", { day: "monday" }).catch((error: unknown) => error);
  assert.ok(pending instanceof ApprovalPending, inspect(pending));
  assert.equal((await agent.approval(pending.id)).state, "pending");
  await assert.rejects(pending.approve(), PermissionDenied);
  const waiting: string[] = [];
  for await (const each of gateway.approvals({ state: "pending", provider: "library" })) waiting.push(each.id);
  assert.ok(waiting.includes(pending.id));
  assert.equal((await gateway.approve(pending.id, "Ordered by phone.")).state, "executed");
  await assert.rejects(gateway.reject(pending.id), Conflict);
  assert.equal((await pending.wait() as { day: string }).day, "monday");
});

test("the tools of a toolset", async () => {
  const shelf = new Gateway({ toolset: "shelf" });
  assert.deepEqual((await shelf.search("find")).map((hit) => hit.name), ["find"]);
  assert.deepEqual(await shelf.call("find", QUERY), expected);
  assert.deepEqual(Object.keys(await shelf.aiSdkTools()), ["find"]);
  const message = { role: "assistant", tool_calls: [{ ...CALL, function: { ...CALL.function, name: "find" } }] };
  assert.deepEqual(JSON.parse((await shelf.run(message))[0].content), expected);
  await assert.rejects(shelf.call(TOOL, QUERY), NotFound);
  const names: string[] = [];
  for await (const each of shelf.listTools()) names.push(each.name);
  assert.deepEqual(names, ["find"]);
  await assert.rejects(shelf.listTools({ tag: "books" }).next(), TypeError);
});

test("tool calls of a model", async () => {
  const messages = await gateway.run(MESSAGE);
  assert.equal(messages.length, 1);
  const { role, tool_call_id: id, content } = messages[0];
  assert.deepEqual([role, id, JSON.parse(content)], ["tool", "call_1", expected]);
  const stream = gateway.runStream(MESSAGE, { assistant: true });
  const results: (ToolCallResult & { message?: unknown })[] = [];
  for await (const result of stream) results.push(result);
  assert.deepEqual(results.map((each) => [each.tool, each.message]), [[TOOL, messages[0]]]);
  assert.deepEqual(stream.end?.messages, [MESSAGE, ...messages]);
});

test("the AI SDK takes the tools as they were exported", async () => {
  const exported = await gateway.tools([TOOL], { format: "ai-sdk" });
  const tools = await gateway.aiSdkTools([TOOL]);
  // Both generations have these types.
  const [seven, six]: [ToolSet7, ToolSet6] = [tools, tools];
  for (const [name, { inputSchema, ...rest }] of Object.entries<any>(exported)) {
    assert.deepEqual(await asSchema7(seven[name]?.inputSchema as never).jsonSchema, inputSchema);
    assert.deepEqual(await asSchema6(six[name]?.inputSchema).jsonSchema, inputSchema);
    assert.equal(tools[name]?.description, rest.description);
    assert.equal(tools[name]?.strict, rest.strict);
  }
  const tool = tools["library_searchBooks"] ?? assert.fail();
  const output = await tool.execute(QUERY, { toolCallId: "call_1" });
  assert.deepEqual(output, expected);
  assert.deepEqual(tool.toModelOutput({ output }), { type: "json", value: expected });
  await assert.rejects(tool.execute({ limit: "many" }, { toolCallId: "call_2" }), { name: "ToolFailed", message: /limit/ });
});
