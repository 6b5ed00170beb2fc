/** One request with its retries. */

import {
  type GatewayError,
  GatewayTimeout,
  GatewayUnreachable,
  ProblemError,
  problemError,
  UnexpectedResponse,
} from "./errors.js";
import { AGENT, type Settings } from "./settings.js";

const FIRST_DELAY_MS = 250;
const MAX_DELAY_MS = 8000;
// The gateway's own problem arrives a little later than the deadline that it was given.
const GRACE_MS = 2000;
// Heartbeats come between the events of a stream.
const STREAM_READ_MS = 60_000;
const MAX_TIMER_MS = 2 ** 31 - 1;
const FROM_PROXIES = [429, 502, 503, 504];
// With these codes of Node.js and its fetch, no request was sent.
const NOT_SENT = /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|EADDRNOTAVAIL|UND_ERR_CONNECT_TIMEOUT)$/;

export interface Request {
  method: "GET" | "POST";
  path: string;
  query?: Record<string, string | number | string[] | undefined>;
  headers?: Record<string, string>;
  /** JSON. */
  body?: string;
  timeout?: number | undefined;
  signal?: AbortSignal | undefined;
  /** Whether it may be sent again after a connection that ended, or an error of a proxy: it only reads, or has an Idempotency-Key. */
  repeatable?: boolean;
  /** Whether the gateway is told how many milliseconds remain. */
  deadline?: boolean;
  /** Whether the body of a response with the status 200 is left unread. */
  stream?: boolean;
  retries?: number;
}

/** A response; `response` is what the body is read from, in a stream. */
export interface Reply {
  status: number;
  headers: Headers;
  body: Uint8Array;
  response: Response;
  timer: Timer;
}

/** Aborts a request after a time, or with the signal of the caller. */
export class Timer {
  /** Whether the time has passed. */
  passed = false;
  readonly #controller = new AbortController();
  readonly #cancel = (): void => this.#controller.abort(this.caller?.reason);
  #handle: ReturnType<typeof setTimeout> | undefined;

  constructor(
    readonly ms: number,
    readonly caller: AbortSignal | undefined,
  ) {
    if (caller?.aborted) this.#cancel();
    caller?.addEventListener("abort", this.#cancel, { once: true });
    this.restart();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Begin the time anew. */
  restart(): void {
    this.pause();
    this.#handle = setTimeout(() => {
      this.passed = true;
      this.#controller.abort();
    }, Math.min(this.ms, MAX_TIMER_MS));
  }

  /** Let no time pass until it is restarted. */
  pause(): void {
    clearTimeout(this.#handle);
  }

  /** Stop it: it aborts nothing any more. */
  end(): void {
    this.pause();
    this.caller?.removeEventListener("abort", this.#cancel);
  }

  /** Return the error of a request or stream that this timer or a connection ended; throw the reason of the caller's signal. */
  judge(error: unknown): GatewayError {
    this.caller?.throwIfAborted();
    if (this.passed) return new GatewayTimeout("There was no response within the timeout.", true);
    const code = codeOf(error);
    const sent = !NOT_SENT.test(code);
    const what = sent ? "The connection to the gateway failed" : "The gateway cannot be reached";
    return new GatewayUnreachable(`${what}${code && `: ${code}`}.`, sent);
  }
}

/** Return the code of what a fetch rejected with. Its text is left out: it is the platform's, and may name anything. */
function codeOf(error: unknown): string {
  const cause = (error as { cause?: { code?: unknown } } | undefined)?.cause;
  return typeof cause?.code === "string" ? cause.code : "";
}

/**
 * Send the request until it succeeds, and return the response; throw GatewayError, or the reason of the caller's signal.
 *
 * It is repeated at most `retries` times within the timeout: after a problem that is `retryable`, and where it is `repeatable`
 * after a connection that ended and after the errors of a proxy. `Retry-After` is honoured: where it is beyond the timeout, the
 * problem is thrown at once. While a call with the same Idempotency-Key runs, further requests do not count.
 */
export async function exchange(settings: Settings, key: string | undefined, request: Request): Promise<Reply> {
  const timeout = request.timeout ?? settings.timeout;
  const retries = request.retries ?? settings.retries;
  const end = performance.now() + timeout;
  const timedOut = (sent: boolean): GatewayTimeout => new GatewayTimeout(`There was no response within ${timeout / 1000} seconds.`, sent);
  for (let repeated = 0; ; ) {
    request.signal?.throwIfAborted();
    const remaining = end - performance.now();
    if (remaining <= 0) throw timedOut(repeated > 0);
    const found = await send(settings, key, request, remaining);
    if (!("error" in found)) return found;
    const { error, retryAfter, mayRepeat } = found;
    if (error instanceof GatewayTimeout) throw timedOut(true);
    const running = error instanceof ProblemError && error.slug === "idempotency-running";
    const delay = retryAfter === undefined ? backoff(repeated) : retryAfter * 1000;
    if (!mayRepeat || (repeated >= retries && !running) || performance.now() + delay >= end) throw error;
    repeated += running ? 0 : 1;
    await sleep(delay, request.signal);
  }
}

interface Failure {
  error: GatewayError;
  retryAfter?: number | undefined;
  mayRepeat: boolean;
}

async function send(settings: Settings, key: string | undefined, request: Request, remaining: number): Promise<Reply | Failure> {
  let ms = remaining + (request.deadline ? GRACE_MS : 0);
  if (request.stream) ms = Math.max(ms, STREAM_READ_MS);
  // Throws TypeError for a value that no header may have; of the key, that is checked before.
  const headers = new Headers({ Accept: "application/json", ...AGENT, ...request.headers });
  if (key) headers.set("Authorization", `Bearer ${key}`);
  if (request.body !== undefined) headers.set("Content-Type", "application/json");
  if (request.deadline) headers.set("X-Timeout-Ms", String(Math.max(1, Math.floor(remaining))));
  const timer = new Timer(ms, request.signal);
  let isOpen = false;
  try {
    const response = await settings.fetch(settings.url + request.path + queryString(request.query), {
      method: request.method,
      headers,
      body: request.body ?? null,
      signal: timer.signal,
      // The key would go elsewhere.
      redirect: "manual",
    });
    isOpen = request.stream === true && response.status === 200;
    const body = isOpen ? new Uint8Array() : new Uint8Array(await response.arrayBuffer());
    const reply = { status: response.status, headers: response.headers, body, response, timer };
    // The status of a redirect in a browser is 0.
    return response.ok ? reply : judge(reply, request);
  } catch (error) {
    const found = timer.judge(error);
    return { error: found, mayRepeat: request.repeatable === true || found.retryable };
  } finally {
    if (!isOpen) timer.end();
  }
}

function judge(reply: Reply, request: Request): Failure {
  const retryAfter = secondsOf(reply.headers.get("retry-after"));
  const problem = problemOf(reply);
  if (!problem) {
    const text = `The response with status ${reply.status} is no problem document of a gateway.`;
    const mayRepeat = request.repeatable === true && FROM_PROXIES.includes(reply.status);
    return { error: new UnexpectedResponse(text, reply.status), retryAfter, mayRepeat };
  }
  const error = problemError(reply.status, problem, retryAfter);
  return { error, retryAfter, mayRepeat: error.retryable };
}

function problemOf(reply: Reply): Record<string, unknown> | undefined {
  if (mediaType(reply.headers) !== "application/problem+json") return undefined;
  try {
    const problem: unknown = JSON.parse(textOf(reply.body));
    return typeof problem === "object" && problem !== null ? (problem as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

/** Return the body as JSON of the contract, which has the members `names`; throw UnexpectedResponse. */
export function jsonOf<T>(reply: Reply, ...names: (keyof T & string)[]): T {
  try {
    const value = JSON.parse(textOf(reply.body)) as T;
    if (typeof value === "object" && value !== null && names.every((name) => name in value)) return value;
  } catch {
    // It is not JSON.
  }
  throw new UnexpectedResponse("The response is not one of a gateway: is this its address?", reply.status);
}

/** Return the media type of a response in lower case, without parameters. */
export function mediaType(headers: Headers): string {
  return (headers.get("content-type") ?? "").split(";", 1)[0]?.trim().toLowerCase() ?? "";
}

/** Decode UTF-8. */
export function textOf(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes);
}

/** Return the seconds that `Retry-After` says (RFC 9110 section 10.2.3), undefined where it says none. */
function secondsOf(text: string | null): number | undefined {
  if (text === null) return undefined;
  if (/^\d+$/.test(text)) return Number(text);
  const seconds = (Date.parse(text) - Date.now()) / 1000;
  return Number.isNaN(seconds) ? undefined : Math.max(0, seconds);
}

/** Return the milliseconds before the next attempt: half of them are random, so that clients do not meet. */
function backoff(repeated: number): number {
  return (Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** repeated) * (1 + Math.random())) / 2;
}

/** Wait; reject with the reason of the signal as soon as it is aborted. */
export function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const ended = (): void => {
      clearTimeout(handle);
      reject(signal?.reason);
    };
    const handle = setTimeout(() => {
      signal?.removeEventListener("abort", ended);
      resolve();
    }, ms);
    signal?.addEventListener("abort", ended, { once: true });
    if (signal?.aborted) ended();
  });
}

function queryString(query: Request["query"]): string {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    for (const each of Array.isArray(value) ? value : [value]) if (each !== undefined) found.append(name, String(each));
  }
  const text = found.toString();
  return text && `?${text}`;
}
