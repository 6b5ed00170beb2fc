/** The client of a gateway. */

import { type AiSdkTool, aiSdkTool, type ExportedTool } from "./ai_sdk.js";
import { ApprovalPending, waitForApproval, type WaitOptions } from "./approvals.js";
import { UnknownTools } from "./errors.js";
import { exchange, jsonOf, type Reply, type Request } from "./exchange.js";
import type {
  ApprovalPage,
  ApprovalResult,
  ApprovalSummary,
  ApprovalView,
  ContinuationPart,
  MeView,
  Ready,
  ToolCallResult,
  ToolCallsResponse,
  ToolDetails,
  ToolExport,
  ToolHit,
  ToolPage,
  ToolsetHit,
  ToolsetPage,
  ToolsetSummary,
  ToolsetTool,
  ToolsetView,
  ToolSummary,
  WaitingForApproval,
} from "./models.js";
import { callResult, type CallResult, toJson } from "./results.js";
import { type GatewayOptions, readSettings, type Settings, type Strict } from "./settings.js";
import { decodeCall, decodeToolCalls, Stream, type StreamEnd, type StreamEvent } from "./streams.js";

/** What a call may have beside its arguments. */
export interface CallOptions {
  /** Milliseconds. */
  timeout?: number | undefined;
  /** Ends the request; the gateway cancels the call. */
  signal?: AbortSignal | undefined;
  /** Identifies the call, in place of a key that is made up. */
  idempotencyKey?: string | undefined;
  /** Cuts the result. */
  maxBytes?: number | undefined;
  /** Cuts the result. */
  maxTokens?: number | undefined;
  /** The parts of the result that are wanted. */
  fields?: string | undefined;
  /** Which arguments are repaired. */
  repair?: "off" | "safe" | "on" | undefined;
}

/** Options of `run`. */
export interface RunOptions extends Omit<CallOptions, "fields"> {
  /** The dialect of the message, where its shape does not tell it (docs/dialects.md). */
  format?: string | undefined;
  /** That of the export. */
  strict?: Strict | undefined;
  /** Whether the messages begin with the model's own. */
  assistant?: boolean | undefined;
}

/** Which tools a list has. */
export interface FilterOptions {
  provider?: string | undefined;
  tag?: string | undefined;
}

/** Which approvals a list has. */
export interface ApprovalsOptions {
  state?: string | undefined;
  kind?: string | undefined;
  provider?: string | undefined;
}

export interface SearchOptions extends FilterOptions {
  limit?: number | undefined;
  signal?: AbortSignal | undefined;
}

export interface ToolsOptions extends SearchOptions {
  /** A dialect of the gateway (`openai-chat`). */
  format?: string | undefined;
  strict?: Strict | undefined;
}

export interface ContinuationOptions {
  maxBytes?: number | undefined;
  maxTokens?: number | undefined;
  format?: string | undefined;
  signal?: AbortSignal | undefined;
}

type Query = NonNullable<Request["query"]>;

/**
 * A gateway. All methods throw GatewayError (`errors.ts`), and the reason of a signal that was given to them.
 *
 * The constructor throws TypeError for options that cannot be right.
 */
export class Gateway {
  readonly #settings: Settings;
  readonly #key: string | undefined;

  constructor(options: GatewayOptions = {}) {
    const { settings, key } = readSettings(options);
    this.#settings = settings;
    this.#key = key;
  }

  /** Return the tools that do what `query` describes, best match first; ToolsetHit with a toolset. */
  async search(query: string, options: SearchOptions = {}): Promise<(ToolHit | ToolsetHit)[]> {
    const { limit = 10, provider, tag, signal } = options;
    const found = { q: query, limit, provider, tag };
    return (await this.#read<{ items: ToolHit[] }>(this.#path("/search"), found, signal, "items")).items;
  }

  /**
   * Return tools as a model's API takes them: the best matches of a text, those of these names, or all.
   *
   * Throws UnknownTools for names without a tool.
   */
  async tools(wanted?: string | readonly string[], options: ToolsOptions = {}): Promise<any> {
    return (await this.export(wanted, options)).tools;
  }

  /** Return what `tools` returns, with a report, and the text of `json-prompt`. */
  async export(wanted?: string | readonly string[], options: ToolsOptions = {}): Promise<ToolExport> {
    const { format = "openai-chat", strict, limit, provider, tag, signal } = options;
    const names = typeof wanted === "object" ? [...wanted] : undefined;
    const query = {
      q: typeof wanted === "string" ? wanted : undefined,
      names,
      format,
      strict: this.#strict(strict),
      limit,
      provider,
      tag,
    };
    const found = await this.#read<ToolExport>(this.#path("/export"), query, signal, "tools", "report");
    if (names && found.report.unknown?.length) throw new UnknownTools(found.report.unknown);
    return found;
  }

  /** Return tools as a ToolSet of the Vercel AI SDK, which call this gateway; choose them as with `tools`. */
  async aiSdkTools(
    wanted?: string | readonly string[],
    options: Omit<ToolsOptions, "format"> & Pick<CallOptions, "maxBytes" | "maxTokens" | "repair" | "timeout"> = {},
  ): Promise<Record<string, AiSdkTool>> {
    const { maxBytes, maxTokens, repair, timeout, ...chosen } = options;
    const exported = (await this.tools(wanted, { ...chosen, format: "ai-sdk" })) as Record<string, ExportedTool>;
    const run = (call: object, signal: AbortSignal | undefined): Promise<unknown[]> =>
      this.run([call], { format: "ai-sdk", strict: chosen.strict, maxBytes, maxTokens, repair, timeout, signal });
    return Object.fromEntries(Object.entries(exported).map(([name, tool]) => [name, aiSdkTool(name, tool, run)]));
  }

  /**
   * Call a tool and return its value: JSON, text as string, no content as null, anything else as Uint8Array.
   *
   * Throws ApprovalPending where the call waits for an approval.
   */
  async call(name: string, args: object = {}, options: CallOptions = {}): Promise<any> {
    return (await this.callResult(name, args, options)).value;
  }

  /** Call a tool and return its value with what is known about it; throw as `call` does. */
  async callResult(name: string, args: object = {}, options: CallOptions = {}): Promise<CallResult> {
    const reply = await this.#exchange(this.#callRequest(name, args, options, "*/*"));
    if (reply.status === 202 && !reply.headers.has("x-upstream-status")) throw this.#pending(reply);
    return callResult(reply);
  }

  /**
   * Call a tool and return the events of its result, each as soon as the upstream sends it.
   *
   * The request is sent when iteration begins. It has no Idempotency-Key, with which the gateway does not stream, so it is sent
   * once.
   */
  stream(name: string, args: object = {}, options: Omit<CallOptions, "idempotencyKey"> = {}): Stream<StreamEvent, StreamEnd> {
    if ("idempotencyKey" in options) throw new TypeError("A streamed call has no Idempotency-Key.");
    const request = this.#callRequest(name, args, options, "text/event-stream");
    return new Stream(async () => {
      const reply = await this.#exchange({ ...request, stream: true, repeatable: false });
      if (reply.status === 202) throw this.#pending(reply);
      return reply;
    }, decodeCall);
  }

  /**
   * Run the tool calls of a model's response, and return the messages to append to the conversation.
   *
   * `message` is the response or message as its SDK has it. Errors of calls are their results.
   */
  async run(message: unknown, options: RunOptions = {}): Promise<any[]> {
    return (await this.runResponse(message, options)).messages;
  }

  /** Run the tool calls as `run` does, and return the messages with what became of each call. */
  async runResponse(message: unknown, options: RunOptions = {}): Promise<ToolCallsResponse> {
    const reply = await this.#exchange(this.#runRequest(message, options, false));
    return jsonOf<ToolCallsResponse>(reply, "messages", "results");
  }

  /** Run the tool calls as `run` does, and return what became of each as soon as it has ended. */
  runStream(message: unknown, options: RunOptions = {}): Stream<ToolCallResult & { message?: unknown }, ToolCallsResponse> {
    const request = this.#runRequest(message, options, true);
    return new Stream(() => this.#exchange(request), decodeToolCalls);
  }

  /** Return a tool of the gateway, also with a toolset; keys limited to toolsets do not see it. */
  tool(name: string): Promise<ToolDetails> {
    return this.#read(`/tools/${encodeURIComponent(name)}`, {}, undefined, "name");
  }

  /**
   * Return all tools that the key may see, page by page; with a toolset, the tools of that.
   *
   * The list of a toolset has neither `provider` nor `tag`: TypeError.
   */
  async *listTools(options: FilterOptions = {}): AsyncGenerator<ToolSummary | ToolsetTool, void, undefined> {
    const { toolset } = this.#settings;
    if (toolset !== undefined) {
      if (options.provider !== undefined || options.tag !== undefined) {
        throw new TypeError("The list of a toolset's tools has no filters for provider and tag.");
      }
      yield* (await this.#read<ToolsetView>(`/toolsets/${toolset}`, {}, undefined, "members")).members;
      return;
    }
    yield* this.#pages<ToolPage, ToolSummary>("/tools", { ...options });
  }

  /** Return all toolsets, page by page. */
  async *toolsets(): AsyncGenerator<ToolsetSummary, void, undefined> {
    yield* this.#pages<ToolsetPage, ToolsetSummary>("/toolsets", {});
  }

  /** Return what the key may do. */
  me(): Promise<MeView> {
    return this.#read("/me", {}, undefined, "scopes");
  }

  /** Return whether the gateway is ready; throw Unavailable where it starts or stops. */
  async health(): Promise<Ready> {
    return jsonOf<Ready>(await this.#exchange({ method: "GET", path: "/health/ready", retries: 0 }), "status");
  }

  /** Return the next part of a result that was cut; its `continuation` leads to the part after it. */
  continuation(handle: string, options: ContinuationOptions = {}): Promise<ContinuationPart> {
    const { maxBytes, maxTokens, format, signal } = options;
    const query = { max_bytes: maxBytes, max_tokens: maxTokens, format };
    return this.#read(`/continuations/${encodeURIComponent(handle)}`, query, signal, "continuation");
  }

  /**
   * Return the rest of a result that was cut, part by part; nothing where it was not cut.
   *
   * `result` is a CallResult, an entry of `results` of tool calls, a part, or its handle. Throws NotFound ten minutes after the
   * call.
   */
  async *readMore(
    result: { continuation?: string | null | undefined } | string | null | undefined,
    options: ContinuationOptions = {},
  ): AsyncGenerator<ContinuationPart, void, undefined> {
    let handle = typeof result === "string" ? result : result?.continuation;
    while (handle != null) {
      const part = await this.continuation(handle, options);
      yield part;
      handle = part.continuation;
    }
  }

  /** Return the approvals that the key has requested or may decide, newest first, page by page. */
  async *approvals(options: ApprovalsOptions = {}): AsyncGenerator<ApprovalSummary, void, undefined> {
    yield* this.#pages<ApprovalPage, ApprovalSummary>("/approvals", { ...options });
  }

  /**
   * Approve a call, which makes it, or other changes; return the state afterwards.
   *
   * Throws PermissionDenied for keys without the scope and for the key that requested it, and Conflict where it does not wait
   * any more.
   */
  approve(id: string, comment: string = ""): Promise<ApprovalView> {
    return this.#decide(id, "approve", comment);
  }

  /** Reject a call or other changes; return and throw as `approve` does. */
  reject(id: string, comment: string = ""): Promise<ApprovalView> {
    return this.#decide(id, "reject", comment);
  }

  /** Return an approval. */
  approval(id: string, signal?: AbortSignal): Promise<ApprovalView> {
    return this.#read(`/approvals/${encodeURIComponent(id)}`, {}, signal, "state");
  }

  /** Return the result of an approved call, or the problem that it failed with. */
  approvalResult(id: string, signal?: AbortSignal): Promise<ApprovalResult> {
    return this.#read(`/approvals/${encodeURIComponent(id)}/result`, {}, signal, "media_type");
  }

  /**
   * Wait until the call has been approved and made, and return its result.
   *
   * Throws ApprovalDenied, the ProblemError that the call failed with, and GatewayTimeout.
   */
  waitForApproval(id: string, options: WaitOptions = {}): Promise<CallResult> {
    return waitForApproval(this, id, options);
  }

  /** Decide once: a request that ended without a response may have had its effect. */
  async #decide(id: string, decision: string, comment: string): Promise<ApprovalView> {
    const path = `/approvals/${encodeURIComponent(id)}/${decision}`;
    return jsonOf<ApprovalView>(await this.#exchange({ method: "POST", path, body: toJson({ comment }) }), "state");
  }

  /** Return the path of the toolset if there is one. */
  #path(path: string): string {
    const { toolset } = this.#settings;
    if (toolset !== undefined) return `/toolsets/${toolset}${path}`;
    return path === "/search" || path === "/export" ? `/tools${path}` : path;
  }

  #callRequest(name: string, args: object, options: CallOptions, accept: string): Request {
    return {
      method: "POST",
      path: this.#path(`/tools/${encodeURIComponent(name)}/call`),
      headers: {
        Accept: accept,
        ...(accept === "*/*" ? idempotency(options) : {}),
        ...preferences(options),
      },
      body: toJson(args),
      timeout: options.timeout,
      signal: options.signal,
      repeatable: true,
      deadline: true,
    };
  }

  #runRequest(message: unknown, options: RunOptions, stream: boolean): Request {
    const { format, strict, assistant, maxBytes, maxTokens, repair, timeout, signal } = options;
    return {
      method: "POST",
      path: this.#path("/tool-calls"),
      query: {
        format,
        strict: this.#strict(strict),
        assistant: assistant ? "true" : undefined,
        stream: stream ? "true" : undefined,
        max_bytes: maxBytes,
        max_tokens: maxTokens,
      },
      headers: {
        Accept: stream ? "text/event-stream" : "application/json",
        ...idempotency(options),
        ...preferences({ repair }),
      },
      body: toJson(message),
      timeout,
      signal,
      repeatable: true,
      deadline: true,
      stream,
    };
  }

  #strict(strict: Strict | undefined): string {
    return String(strict ?? this.#settings.strict);
  }

  #pending(reply: Reply): ApprovalPending {
    const { approval } = jsonOf<WaitingForApproval>(reply, "approval");
    return new ApprovalPending(approval, this);
  }

  async *#pages<P extends { items: T[]; next_cursor: string | null }, T>(path: string, query: Query): AsyncGenerator<T, void, undefined> {
    for (let cursor: string | undefined; ; ) {
      const page: P = await this.#read<P>(path, { ...query, cursor, limit: 100 }, undefined, "items", "next_cursor");
      yield* page.items;
      if (page.next_cursor === null) return;
      cursor = page.next_cursor;
    }
  }

  async #read<T>(path: string, query: Query, signal: AbortSignal | undefined, ...names: (keyof T & string)[]): Promise<T> {
    return jsonOf<T>(await this.#exchange({ method: "GET", path, query, signal, repeatable: true }), ...names);
  }

  #exchange(request: Request): Promise<Reply> {
    return exchange(this.#settings, this.#key, request);
  }
}

/** Return a key that is made once for a call, and is the same in each of its attempts. */
function idempotency(options: CallOptions): Record<string, string> {
  return { "Idempotency-Key": options.idempotencyKey ?? crypto.randomUUID() };
}

/** Return the header Prefer, if one is needed. */
function preferences({ maxBytes, maxTokens, fields, repair }: CallOptions): Record<string, string> {
  const parts = [
    maxBytes !== undefined && `max-bytes=${maxBytes}`,
    maxTokens !== undefined && `max-tokens=${maxTokens}`,
    fields !== undefined && `fields=${JSON.stringify(fields)}`,
    repair !== undefined && `repair=${repair}`,
  ].filter(Boolean);
  return parts.length ? { Prefer: parts.join(", ") } : {};
}
