/** What a call returned. */

import { UnexpectedResponse } from "./errors.js";
import { mediaType, type Reply, textOf } from "./exchange.js";
import type { ApprovalResult } from "./models.js";

/** The result of a call. */
export interface CallResult {
  /** JSON, text as string, null where there is no content, and Uint8Array for anything else. */
  value: unknown;
  mediaType: string;
  status: number;
  callId: string | undefined;
  /** The handle by which the rest of a result that was cut is read. */
  continuation: string | undefined;
  /** What the gateway says about repaired arguments. */
  repairs: string | undefined;
  /** What the gateway says about cuts. */
  notes: string | undefined;
  /** Whether an earlier call with this Idempotency-Key had this result. */
  replayed: boolean;
}

/** Return the result of a response of the call route; throw UnexpectedResponse for JSON that cannot be read. */
export function callResult({ status, headers, body }: Reply): CallResult {
  const get = (name: string): string | undefined => headers.get(name) ?? undefined;
  return {
    value: valueOf(status, headers, body),
    mediaType: mediaType(headers),
    status,
    callId: get("x-call-id"),
    continuation: get("x-continuation"),
    repairs: get("x-argument-repairs"),
    notes: get("x-result-notes"),
    replayed: get("idempotency-replayed") === "true",
  };
}

/** Return the result of an approved call, which has no problem. */
export function approvedResult(result: ApprovalResult): CallResult {
  return {
    value: result.text ?? (result.base64 != null ? fromBase64(result.base64) : (result.json ?? null)),
    mediaType: result.media_type,
    status: result.upstream_status ?? 200,
    callId: result.call_id ?? undefined,
    continuation: undefined,
    repairs: undefined,
    notes: undefined,
    replayed: false,
  };
}

export function fromBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (each) => each.charCodeAt(0));
}

/** Return a value as JSON; bytes become Base64. Throws TypeError for what has no JSON form. */
export function toJson(value: unknown): string {
  const text = JSON.stringify(value, function (this: Record<string, unknown>, name: string, found: unknown) {
    // `found` is what toJSON returned, which Buffer has.
    const bytes = this[name];
    if (!(bytes instanceof Uint8Array)) return found;
    let characters = "";
    for (const each of bytes) characters += String.fromCharCode(each);
    return btoa(characters);
  }) as string | undefined;
  if (text === undefined) throw new TypeError(`${typeof value} has no JSON form.`);
  return text;
}

function valueOf(status: number, headers: Headers, body: Uint8Array): unknown {
  const type = mediaType(headers);
  if (!body.length) return null;
  if (type === "application/json" || type.endsWith("+json")) {
    try {
      return JSON.parse(textOf(body));
    } catch {
      throw new UnexpectedResponse("The upstream's JSON cannot be read.", status);
    }
  }
  if (!type.startsWith("text/")) return body;
  const charset = /charset="?([^";\s]+)/i.exec(headers.get("content-type") ?? "")?.[1];
  try {
    return new TextDecoder(charset ?? "utf-8", { fatal: true, ignoreBOM: true }).decode(body);
  } catch {
    return body;
  }
}
