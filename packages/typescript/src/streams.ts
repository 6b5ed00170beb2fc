/** The events of a streamed call, and of streamed tool calls: what is in them, and how they end. */

import { problemError, StreamBroken } from "./errors.js";
import type { Reply } from "./exchange.js";
import type { ToolCallResult, ToolCallsResponse } from "./models.js";
import { fromBase64 } from "./results.js";

const MAX_EVENT_CHARACTERS = 64 << 20;

/** An event of the upstream; `event` and `id` are those of an upstream that sends events itself, and empty otherwise. */
export interface StreamEvent {
  /** JSON, or string, or Uint8Array. */
  data: unknown;
  event: string;
  id: string;
}

/** What the last event of a streamed call says. */
export interface StreamEnd {
  call_id?: string;
  upstream_status?: number;
  events?: number;
  bytes?: number;
  [name: string]: unknown;
}

interface RawEvent {
  event: string;
  id: string;
  data: string;
}

type Decoded<E, End> = { event: E } | { end: End };

/**
 * Events as they arrive: iterate over it once. The request is sent when iteration begins; leaving the loop ends the stream, and
 * the gateway cancels the call.
 *
 * Iteration throws the ProblemError that ends the stream, and StreamBroken where it is not complete.
 */
export class Stream<E, End> implements AsyncIterable<E> {
  /** What the last event says; undefined until it has arrived. */
  end: End | undefined;
  readonly #open: () => Promise<Reply>;
  readonly #decode: (raw: RawEvent) => Decoded<E, End>;
  #isUsed = false;

  constructor(open: () => Promise<Reply>, decode: (raw: RawEvent) => Decoded<E, End>) {
    this.#open = open;
    this.#decode = decode;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<E, void, undefined> {
    if (this.#isUsed) throw new TypeError("A stream is read once.");
    this.#isUsed = true;
    const { response, timer } = await this.#open();
    const reader = response.body?.getReader();
    const events = new EventReader();
    try {
      for (;;) {
        timer.restart();
        let part: ReadableStreamReadResult<Uint8Array> | undefined;
        try {
          part = await reader?.read();
        } catch (error) {
          throw timer.judge(error);
        }
        if (!part || part.done) break;
        timer.pause();
        for (const raw of events.feed(part.value)) {
          const decoded = this.#decode(raw);
          if ("end" in decoded) this.end = decoded.end;
          else yield decoded.event;
        }
      }
    } finally {
      timer.end();
      await reader?.cancel().catch(() => undefined);
    }
    if (this.end === undefined) throw new StreamBroken("The stream ended before its last event.");
  }
}

/** Parses `text/event-stream` (HTML standard, section 9.2.6); lines end with LF or CRLF. */
class EventReader {
  readonly #decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  #rest = "";
  #event = "";
  #id = "";
  #data: string[] = [];

  /** Return the events that `part` completes; throw StreamBroken where one is too large. */
  *feed(part: Uint8Array): Generator<RawEvent, void, undefined> {
    const lines = (this.#rest + this.#decoder.decode(part, { stream: true })).split("\n");
    this.#rest = lines.pop() ?? "";
    if (this.#rest.length > MAX_EVENT_CHARACTERS) throw new StreamBroken("An event is larger than 64 Mi characters.");
    for (const each of lines) {
      const line = each.endsWith("\r") ? each.slice(0, -1) : each;
      if (line) {
        this.#line(line);
      } else {
        if (this.#data.length) yield { event: this.#event, id: this.#id, data: this.#data.join("\n") };
        this.#event = "";
        this.#data = [];
      }
    }
  }

  #line(line: string): void {
    const at = line.indexOf(":");
    const name = at < 0 ? line : line.slice(0, at);
    const value = at < 0 ? "" : line.slice(at + 1).replace(/^ /, "");
    if (name === "data") this.#data.push(value);
    else if (name === "event") this.#event = value;
    else if (name === "id") this.#id = value;
  }
}

/** Return an event of a call, or what the last one says. */
export function decodeCall({ event, id, data }: RawEvent): Decoded<StreamEvent, StreamEnd> {
  switch (event) {
    case "gateway-end":
      return { end: json(data) as StreamEnd };
    case "gateway-error":
      return fail(data);
    case "gateway-bytes":
      return { event: { data: fromBase64((json(data) as { base64: string }).base64), event: "", id: "" } };
    case "gateway-text":
      return { event: { data: json(data), event: "", id: "" } };
  }
  return { event: { data: jsonOrText(data), event: event.replace(/^upstream-(?=gateway-)/, ""), id } };
}

/** Return the result of a call (its `message` is a further member), or the whole response. */
export function decodeToolCalls({ event, data }: RawEvent): Decoded<ToolCallResult & { message?: unknown }, ToolCallsResponse> {
  if (event === "end") return { end: json(data) as ToolCallsResponse };
  return event === "error" ? fail(data) : { event: json(data) as ToolCallResult };
}

function fail(data: string): never {
  const problem = json(data) as Record<string, unknown>;
  throw problemError(typeof problem["status"] === "number" ? problem["status"] : 500, problem);
}

function json(data: string): unknown {
  try {
    return JSON.parse(data);
  } catch {
    throw new StreamBroken("An event of the gateway is not JSON.");
  }
}

function jsonOrText(data: string): unknown {
  try {
    return JSON.parse(data);
  } catch {
    return data;
  }
}
