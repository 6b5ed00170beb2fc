/**
 * One conversation with each SDK of a model's provider, whose tool calls the gateway runs.
 *
 * `MODEL_URL` has the wire formats of the providers (tests/interop/model_providers.py), and checks tools and results. Its text
 * says how many results there were, and how many of them were errors.
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import Anthropic from "@anthropic-ai/sdk";
import { Gateway } from "@utcp-gateway/client";
import { generateText, stepCountIs } from "ai";
import OpenAI from "openai";
import { chatServer } from "./chat_server.js";

const PROVIDER = { provider: "interop" };
const QUESTION = "Which books about the sea are there?";
const TEXT = "4 results, 2 errors";
const gateway = new Gateway();
const openai = new OpenAI({ baseURL: `${process.env["MODEL_URL"]}/openai`, apiKey: "k", maxRetries: 0 });

test("openai, Chat Completions", async () => {
  const tools = await gateway.tools(undefined, PROVIDER);
  const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: "user", content: QUESTION }];
  const response = await openai.chat.completions.create({ model: "m", messages, tools });
  messages.push(...(await gateway.run(response, { assistant: true })));
  const last = await openai.chat.completions.create({ model: "m", messages, tools });
  assert.equal(last.choices[0]?.message.content, TEXT);
  assert.deepEqual(await gateway.run(last), []);
});

test("openai, Responses", async () => {
  const tools = await gateway.tools(undefined, { ...PROVIDER, format: "openai-responses" });
  const input: OpenAI.Responses.ResponseInput = [{ role: "user", content: QUESTION }];
  const response = await openai.responses.create({ model: "m", input, tools });
  input.push(...(await gateway.run(response, { assistant: true })));
  const last = await openai.responses.create({ model: "m", input, tools });
  assert.equal(last.output_text, TEXT);
  assert.deepEqual(await gateway.run(last), []);
});

test("@anthropic-ai/sdk", async () => {
  const anthropic = new Anthropic({ baseURL: `${process.env["MODEL_URL"]}/anthropic`, apiKey: "k", maxRetries: 0 });
  const tools = await gateway.tools(undefined, { ...PROVIDER, format: "anthropic" });
  const messages: Anthropic.MessageParam[] = [{ role: "user", content: QUESTION }];
  const request = { model: "m", max_tokens: 1000, messages, tools };
  const response = await anthropic.messages.create(request);
  messages.push(...(await gateway.run(response, { assistant: true })));
  const last = await anthropic.messages.create(request);
  assert.deepEqual(last.content.map((block) => block.type === "text" && block.text), [TEXT]);
  assert.deepEqual(await gateway.run(last), []);
});

test("the AI SDK", async () => {
  const server = await chatServer([["interop_searchBooks", { q: "sea", limit: 3 }], ["interop_searchBooks", { limit: "many" }]]);
  try {
    const model = createOpenAICompatible({ name: "scripted", baseURL: server.url })("m");
    const tools = await gateway.aiSdkTools(undefined, PROVIDER);
    const result = await generateText({ model, tools, prompt: QUESTION, stopWhen: stepCountIs(3) });
    assert.equal(result.text, "Done.");
    const [first, second] = server.bodies;
    assert.deepEqual(first.tools.map((each: any) => each.function.name).sort(), Object.keys(tools).sort());
    const search = first.tools.find((each: any) => each.function.name === "interop_searchBooks").function;
    const [exported] = await gateway.tools(["interop.searchBooks"], { format: "json-prompt" });
    assert.deepEqual(Object.keys(search.parameters.properties), Object.keys(exported.parameters.properties));
    const [found, failed] = second.messages.slice(2);
    assert.deepEqual(JSON.parse(found.content), await gateway.call("interop.searchBooks", { q: "sea", limit: 3 }));
    assert.equal(found.tool_call_id, "call_0");
    assert.equal(failed.tool_call_id, "call_1");
    assert.match(failed.content, /limit/);
  } finally {
    server.close();
  }
});

test("the AI SDK, with calls that the program runs itself", async () => {
  const server = await chatServer([["interop_searchBooks", { q: "sea", limit: 3 }]]);
  try {
    const model = createOpenAICompatible({ name: "scripted", baseURL: server.url })("m");
    const tools = await gateway.aiSdkTools(["interop.searchBooks"]);
    const declared = Object.fromEntries(Object.entries(tools).map(([name, { execute: _, ...tool }]) => [name, tool]));
    const step = await generateText({ model, tools: declared, prompt: QUESTION });
    const [message] = await gateway.run(step.toolCalls);
    assert.equal(message.role, "tool");
    assert.equal(message.content[0].output.type, "json");
    const messages = [{ role: "user" as const, content: QUESTION }, ...step.response.messages, message];
    assert.equal((await generateText({ model, tools: declared, messages })).text, "Done.");
  } finally {
    server.close();
  }
});
