/** Requests of the client: retries, errors, timeouts, and that the key is nowhere else than in its header. */

import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { readFileSync } from "node:fs";
import { afterEach, beforeEach, test } from "node:test";
import { inspect } from "node:util";
import * as client from "@utcp-gateway/client";
import { Gateway, type GatewayOptions } from "@utcp-gateway/client";
import { type Answer, type Peer, peer, problem } from "./peer.js";

const KEY = "ugw_canary_0123456789abcdef";
let server: Peer;
let gateway: Gateway;

function connect(options: GatewayOptions = {}): Gateway {
  return new Gateway({ url: server.url, key: KEY, timeout: 60_000, ...options });
}

async function caught<E extends Error>(promise: Promise<unknown>, kind: abstract new (...given: never[]) => E): Promise<E> {
  const error = await promise.then(
    () => assert.fail("It was not rejected."),
    (found: unknown) => found,
  );
  assert.ok(error instanceof kind, inspect(error));
  return error;
}

async function all<E, T = E>(events: AsyncIterable<E>, map?: (event: E) => T): Promise<(E | T)[]> {
  const found: (E | T)[] = [];
  for await (const event of events) found.push(map ? map(event) : event);
  return found;
}

beforeEach(async () => {
  server = await peer();
  gateway = connect();
});

afterEach(() => server.close());

test("a dropped connection is repeated with the same Idempotency-Key", async () => {
  server.answers.push({ drop: true }, { body: { total: 1 } });
  assert.deepEqual(await gateway.call("shop.order", { book: "bk-1" }), { total: 1 });
  const [first, second] = server.received;
  assert.deepEqual([first?.method, first?.path, first?.body], ["POST", "/tools/shop.order/call", '{"book":"bk-1"}']);
  assert.ok(first?.headers["idempotency-key"]);
  assert.equal(first.headers["idempotency-key"], second?.headers["idempotency-key"]);
  assert.equal(first.headers.authorization, `Bearer ${KEY}`);
  assert.match(first.headers["user-agent"] ?? "", /^utcp-gateway-client\/[\d.]+ node\/\d/);
  const remaining = Number(second?.headers["x-timeout-ms"]);
  assert.ok(remaining > 0 && remaining < 60_000, String(remaining));
});

test("two calls have two Idempotency-Keys", async () => {
  server.answers.push({ body: 1 }, { body: 2 });
  assert.deepEqual([await gateway.call("shop.order"), await gateway.call("shop.order")], [1, 2]);
  assert.equal(new Set(server.received.map((each) => each.headers["idempotency-key"])).size, 2);
});

test("options of a call are headers", async () => {
  server.answers.push({ body: 1 });
  await gateway.call("shop.order", {}, { idempotencyKey: "order-7", maxBytes: 500, fields: '/a "b"', repair: "safe" });
  const headers = server.received[0]?.headers;
  assert.equal(headers?.["idempotency-key"], "order-7");
  assert.equal(headers?.["prefer"], 'max-bytes=500, fields="/a \\"b\\"", repair=safe');
});

for (const [status, slug] of [[429, "rate-limited"], [503, "overloaded"], [503, "stopping"]] as const) {
  test(`the retryable problem ${slug} is repeated`, async () => {
    server.answers.push(problem(status, slug, { retryable: true }, 0), { body: "done" });
    assert.equal(await gateway.call("shop.order"), "done");
  });
}

test("a problem that is not retryable is thrown at once", async () => {
  const errors = [{ pointer: "/limit", detail: "Must be an integer.", expected: "integer" }];
  const members = { errors, hint: "Correct it.", call_id: "c-1", documentation_url: "https://a.example/e", later: 1 };
  server.answers.push(problem(422, "invalid-arguments", members));
  const error = await caught(gateway.call("shop.order", { limit: "x" }), client.InvalidArguments);
  assert.ok(error instanceof client.InvalidRequest && error instanceof client.GatewayError);
  assert.deepEqual(error.errors, errors);
  const { name, status, slug, type, hint, callId, documentationUrl, members: all } = error;
  assert.deepEqual(
    { name, status, slug, type, hint, callId, documentationUrl, later: all["later"] },
    {
      name: "InvalidArguments", status: 422, slug: "invalid-arguments", type: "urn:utcp-gateway:problem:invalid-arguments",
      hint: "Correct it.", callId: "c-1", documentationUrl: "https://a.example/e", later: 1,
    },
  );
  assert.equal(error.message, "422 invalid-arguments: It failed.\n/limit: Must be an integer.\nCorrect it.");
  assert.equal(server.received.length, 1);
});

test("retries end", async () => {
  server.answers.push(...Array.from({ length: 4 }, () => problem(503, "unavailable", { retryable: true }, 0)));
  await caught(gateway.me(), client.Unavailable);
  assert.equal(server.received.length, 4);
});

test("a Retry-After beyond the timeout is thrown at once", async () => {
  server.answers.push(problem(429, "rate-limited", { retryable: true }, 3600));
  const error = await caught(gateway.call("shop.order"), client.RateLimited);
  assert.equal(error.retryAfter, 3600);
});

test("a Retry-After may be a date", async () => {
  const later = new Date(Date.now() + 3_600_000).toUTCString();
  server.answers.push(problem(429, "rate-limited", { retryable: true }, later));
  const error = await caught(gateway.call("shop.order"), client.RateLimited);
  assert.ok(error.retryAfter !== undefined && error.retryAfter > 3000 && error.retryAfter <= 3600, String(error.retryAfter));
});

test("a call that still runs is waited for beyond the number of retries", async () => {
  const running = Array.from({ length: 3 }, () => problem(409, "idempotency-running", { retryable: true }, 0));
  server.answers.push(...running, { body: "done" });
  assert.equal(await connect({ retries: 0 }).call("shop.order"), "done");
  server.answers.push(...running, problem(503, "stopping", { retryable: true }, 0), { body: "done" });
  assert.equal(await connect({ retries: 1 }).call("shop.order"), "done");
});

test("an error of a proxy is repeated and then thrown", async () => {
  server.answers.push(...Array.from({ length: 2 }, () => ({ status: 502, body: Buffer.from("<html>"), mediaType: "text/html" })));
  const error = await caught(connect({ retries: 1 }).call("shop.order"), client.UnexpectedResponse);
  assert.equal(error.status, 502);
  assert.equal(server.received.length, 2);
});

test("a redirect is not followed", async () => {
  server.answers.push({ status: 307, body: null, headers: { Location: `${server.url}/elsewhere` } });
  await caught(gateway.call("shop.order"), client.UnexpectedResponse);
  assert.equal(server.received.length, 1);
});

test("a response that does not come is a timeout, and the request ends", async () => {
  server.answers.push({ silent: true });
  // Without a deadline at the gateway, so that the client waits no longer than it was told.
  const error = await caught(connect({ timeout: 50 }).me(), client.GatewayTimeout);
  assert.deepEqual([error.sent, error.retryable], [true, false]);
  await server.left;
  assert.equal(server.received.length, 1);
});

test("a signal ends the request with its reason", async () => {
  server.answers.push({ silent: true });
  const controller = new AbortController();
  const reason = new RangeError("enough");
  const call = gateway.call("shop.order", {}, { signal: controller.signal });
  const rejected = assert.rejects(call, (error) => error === reason);
  while (!server.received.length) await new Promise(setImmediate);
  controller.abort(reason);
  await rejected;
  await server.left;
  assert.equal(server.received.length, 1);
  await assert.rejects(gateway.call("shop.order", {}, { signal: controller.signal }), (error) => error === reason);
  assert.equal(server.received.length, 1);
});

test("a signal ends the wait before a retry", async () => {
  const controller = new AbortController();
  const fetching: typeof fetch = async () => {
    // By then the response, which is complete, has been read.
    setTimeout(() => controller.abort(), 20);
    const headers = { "Content-Type": "application/problem+json", "Retry-After": "30" };
    return new Response('{"type":"urn:utcp-gateway:problem:rate-limited","retryable":true}', { status: 429, headers });
  };
  await assert.rejects(connect({ fetch: fetching }).call("shop.order", {}, { signal: controller.signal }), { name: "AbortError" });
});

test("an address without a server is unreachable, and nothing was sent", async () => {
  await server.close();
  const error = await caught(connect({ retries: 0 }).me(), client.GatewayUnreachable);
  assert.equal(error.sent, false);
  assert.equal(error.message, "The gateway cannot be reached: ECONNREFUSED.");
  server = await peer();
});

test("responses that are not of the contract", async () => {
  server.answers.push({ body: { hello: 1 } }, { body: Buffer.from("<html>"), mediaType: "text/html" });
  for (const _ of [1, 2]) await caught(gateway.me(), client.UnexpectedResponse);
});

const VALUES: [string, Buffer, unknown][] = [
  ["application/json", Buffer.from('{"a":1}'), { a: 1 }],
  ["application/hal+json", Buffer.from("[1]"), [1]],
  ["text/plain; charset=latin1", Buffer.from([0xe9]), "\xe9"],
  ["text/plain", Buffer.from([0xff]), new Uint8Array([0xff])],
  ["image/png", Buffer.from("\x89PNG\x00", "latin1"), new Uint8Array([0x89, 0x50, 0x4e, 0x47, 0])],
  ["text/plain", Buffer.alloc(0), null],
];
for (const [mediaType, body, value] of VALUES) {
  test(`a value of ${mediaType} with ${body.length} bytes`, async () => {
    server.answers.push({ body, mediaType, headers: { "X-Call-Id": "c-1", "X-Continuation": "h", "Idempotency-Replayed": "true" } });
    const result = await gateway.callResult("shop.order");
    assert.deepEqual(result.value, value);
    const { mediaType: type, callId, continuation, replayed } = result;
    assert.deepEqual([type, callId, continuation, replayed], [mediaType.split(";")[0], "c-1", "h", true]);
  });
}

test("JSON of an upstream that cannot be read", async () => {
  server.answers.push({ body: Buffer.from("{"), headers: { "X-Call-Id": "c-1" } });
  await caught(gateway.call("shop.order"), client.UnexpectedResponse);
});

test("bytes in arguments are Base64", async () => {
  server.answers.push({ body: 1 });
  await gateway.call("shop.order", { a: new Uint8Array([0, 1]), b: [Buffer.from([255])], c: undefined });
  assert.equal(server.received[0]?.body, '{"a":"AAE=","b":["/w=="]}');
  await assert.rejects(gateway.run(undefined), TypeError);
});

const STREAM =
  ': heartbeat\n\ndata: {"gold":41}\n\nevent: price\nid: 7\r\ndata: plain\r\n\r\nevent: gateway-text\ndata: "a\u2028b"\n\n' +
  'event: gateway-bytes\ndata: {"media_type":"x/y","base64":"AAE="}\n\nevent: upstream-gateway-end\ndata: a\ndata: b\n\n';

function events(last: string): Answer {
  return { body: Buffer.from(STREAM + last), mediaType: "text/event-stream" };
}

test("the events of a stream", async () => {
  server.answers.push(events('event: gateway-end\ndata: {"events":5}\n\n'));
  const stream = gateway.stream("shop.prices");
  assert.deepEqual(await all(stream, ({ event, id, data }) => [event, id, data]), [
    ["", "", { gold: 41 }], ["price", "7", "plain"], ["", "", "a\u2028b"], ["", "", new Uint8Array([0, 1])],
    ["gateway-end", "7", "a\nb"],
  ]);
  assert.deepEqual(stream.end, { events: 5 });
  await assert.rejects(all(stream), TypeError);
});

test("a stream in pieces of one byte has the same events", async () => {
  const bytes = Buffer.from(`${STREAM}event: gateway-end\ndata: {"events":5}\n\n`);
  const fetching: typeof fetch = async () =>
    new Response(
      new ReadableStream<Uint8Array>({
        start(controller) {
          for (const byte of bytes) controller.enqueue(new Uint8Array([byte]));
          controller.close();
        },
      }),
    );
  const stream = connect({ fetch: fetching }).stream("shop.prices");
  assert.deepEqual(await all(stream, ({ data }) => data), [
    { gold: 41 }, "plain", "a\u2028b", new Uint8Array([0, 1]), "a\nb",
  ]);
});

test("leaving the loop ends the request of a stream", async () => {
  server.answers.push({ body: Buffer.from(STREAM), mediaType: "text/event-stream", open: true });
  for await (const event of gateway.stream("shop.prices")) {
    assert.deepEqual(event.data, { gold: 41 });
    break;
  }
  await server.left;
});

test("a signal ends a stream with its reason", async () => {
  server.answers.push({ body: Buffer.from(STREAM), mediaType: "text/event-stream", open: true });
  const controller = new AbortController();
  const seen: unknown[] = [];
  await assert.rejects(
    async () => {
      for await (const event of gateway.stream("shop.prices", {}, { signal: controller.signal })) {
        if (seen.push(event.data) === 5) controller.abort();
      }
    },
    { name: "AbortError" },
  );
  await server.left;
});

test("requests and streams that have ended do not listen to their signal", async () => {
  const { signal } = new AbortController();
  server.answers.push({ body: 1 }, events('event: gateway-end\ndata: {"events":5}\n\n'), { drop: true }, { body: 1 });
  await gateway.call("shop.order", {}, { signal });
  assert.equal((await all(gateway.stream("shop.prices", {}, { signal }))).length, 5);
  await gateway.call("shop.order", {}, { signal });
  assert.deepEqual(getEventListeners(signal, "abort"), []);
});

test("a streamed call is not repeated once it was sent", async () => {
  server.answers.push({ drop: true });
  const error = await caught(all(gateway.stream("shop.prices")), client.GatewayUnreachable);
  assert.ok(error.sent);
  assert.match(error.message, /^The connection to the gateway failed: [A-Z_]+\.$/);
  assert.equal(server.received.length, 1);
  assert.equal(server.received[0]?.headers["idempotency-key"], undefined);
  server.answers.push({ status: 502, body: Buffer.from("<html>"), mediaType: "text/html" });
  await caught(all(gateway.stream("shop.prices")), client.UnexpectedResponse);
  assert.equal(server.received.length, 2);
  assert.throws(() => gateway.stream("shop.prices", {}, { idempotencyKey: "a" } as object), /Idempotency-Key/);
});

test("a stream without its last event is broken", async () => {
  server.answers.push(events(""));
  await caught(all(gateway.stream("shop.prices")), client.StreamBroken);
});

test("an error in a stream is thrown after its events", async () => {
  server.answers.push(events('event: gateway-error\ndata: {"type":"urn:utcp-gateway:problem:upstream-timeout","status":504}\n\n'));
  const seen: unknown[] = [];
  const read = async (): Promise<void> => {
    for await (const event of gateway.stream("shop.prices")) seen.push(event.data);
  };
  await caught(read(), client.UpstreamTimeout);
  assert.equal(seen.length, 5);
});

const APPROVAL = { id: "019a0000-0000-7000-8000-000000000014", kind: "call", state: "pending", comment: "" };

test("a call that waits for an approval", async () => {
  const result = { call_id: null, upstream_status: 200, media_type: "application/json", json: { total: 1 } };
  server.answers.push(
    { status: 202, body: { approval: APPROVAL }, headers: { "X-Call-Id": "c-1" } },
    { body: { ...APPROVAL, state: "executed" } },
    { body: result },
    { body: { ...APPROVAL, state: "rejected", comment: "No." } },
  );
  const error = await caught(gateway.call("shop.order"), client.ApprovalPending);
  assert.equal(error.id, APPROVAL.id);
  assert.deepEqual(await error.wait(), { total: 1 });
  const denied = await caught(error.wait(), client.ApprovalDenied);
  assert.deepEqual([denied.state, denied.comment], ["rejected", "No."]);
});

test("an approved call that failed throws its problem, and a wait ends with its timeout", async () => {
  const failed = problem(502, "upstream-rejected", { upstream_status: 400, upstream_body: "bad" }).body;
  server.answers.push(
    { body: { ...APPROVAL, state: "failed" } },
    { body: { call_id: null, media_type: "application/problem+json", problem: failed } },
    { body: APPROVAL },
    { body: APPROVAL },
  );
  const error = await caught(gateway.waitForApproval(APPROVAL.id), client.UpstreamRejected);
  assert.deepEqual([error.upstreamStatus, error.upstreamBody], [400, "bad"]);
  await caught(gateway.waitForApproval(APPROVAL.id, { timeout: 1 }), client.GatewayTimeout);
});

test("the key is in no error, property or text", async () => {
  process.env["UTCP_GATEWAY_URL"] = server.url;
  process.env["UTCP_GATEWAY_KEY"] = KEY;
  server.answers.push({ drop: true }, problem(500, "internal-error"), { body: Buffer.from("<"), mediaType: "text/html" });
  const texts: string[] = [];
  try {
    const made = new Gateway({ retries: 0 });
    for (const _ of [1, 2, 3]) {
      const error = await caught(made.me(), client.GatewayError);
      texts.push(String(error), error.stack ?? "", inspect(error, { depth: null, showHidden: true }));
    }
    texts.push(inspect(made, { depth: null, showHidden: true }), JSON.stringify(made));
  } finally {
    delete process.env["UTCP_GATEWAY_URL"];
    delete process.env["UTCP_GATEWAY_KEY"];
  }
  assert.deepEqual(server.received.map((each) => each.headers.authorization), Array(3).fill(`Bearer ${KEY}`));
  assert.equal(texts.length, 11);
  for (const text of texts) assert.ok(!text.includes(KEY), text);
  assert.throws(
    () => connect({ key: `${KEY}\r\nX: y` }),
    (error: Error) => /characters/.test(error.message) && !inspect(error).includes(KEY),
  );
});

for (const url of ["", "ftp://a", "http://", "http://user:pw@host", "http://host?x=1", "http://host#x", "host"]) {
  test(`the URL ${JSON.stringify(url)} is none`, () => {
    assert.throws(() => new Gateway({ url, key: KEY }), /URL/);
  });
}

test("options that cannot be right", () => {
  for (const options of [{ timeout: 0 }, { retries: -1 }, { toolset: "a/b" }, { timeout: NaN }]) {
    assert.throws(() => connect(options), TypeError);
  }
});

test("a header value that cannot be sent is a TypeError, and nothing is sent", async () => {
  await assert.rejects(gateway.call("shop.order", {}, { idempotencyKey: "a\nb" }), TypeError);
  assert.equal(server.received.length, 0);
});

test("each slug of the gateway has a class", () => {
  const page = readFileSync(new URL("../../../../docs/errors.md", import.meta.url), "utf8");
  const slugs = new Set([...page.matchAll(/^\| \[([a-z0-9-]+)\]/gm)].map((each) => each[1]));
  const without = [...slugs].filter((slug) => !client.ERROR_BY_SLUG.has(slug ?? "")).sort();
  // Those of the browser are answered to pages of the console only.
  const browser = ["cross-site-request", "https-required"];
  assert.deepEqual(without, [...browser, "internal-error", "loop-detected", "not-implemented", "seal-broken"]);
  for (const slug of client.ERROR_BY_SLUG.keys()) assert.ok(slugs.has(slug), slug);
});

test("a toolset has paths of its own", async () => {
  const answer = { format: "openai-chat", messages: [{ role: "tool" }], results: [], cut: null };
  server.answers.push({ body: { items: [] } }, { body: answer }, { body: 1 }, { body: { tools: [], report: { unknown: ["x"] } } });
  const books = connect({ toolset: "books" });
  assert.deepEqual(await books.search("a book"), []);
  assert.deepEqual(await books.run({ tool_calls: [] }, { strict: true }), [{ role: "tool" }]);
  await books.call("find");
  const error = await caught(books.tools(["x", "y"]), client.UnknownTools);
  assert.deepEqual(error.names, ["x"]);
  assert.deepEqual(
    server.received.map((each) => each.path),
    [
      "/toolsets/books/search?q=a+book&limit=10",
      "/toolsets/books/tool-calls?strict=true",
      "/toolsets/books/tools/find/call",
      "/toolsets/books/export?names=x&names=y&format=openai-chat&strict=auto",
    ],
  );
  assert.equal(server.received[1]?.body, '{"tool_calls":[]}');
});
