/**
 * The errors of the client.
 *
 *     GatewayError
 *     ├── GatewayUnreachable        no response: `sent` says whether the gateway may have received the request
 *     ├── GatewayTimeout            the timeout of the request passed: `sent` as above
 *     ├── UnexpectedResponse        a response that is not one of the gateway's contract
 *     ├── StreamBroken              a stream ended before its last event
 *     ├── UnknownTools              tools that were asked for by name, and that this key may not call
 *     ├── ToolFailed                a call of a tool for the AI SDK failed: its text is for the model
 *     ├── ApprovalPending           the call waits for an approval (approvals.ts)
 *     ├── ApprovalDenied            it was rejected, or nobody decided in time
 *     └── ProblemError              the gateway's problem details (RFC 9457)
 *         ├── Unauthenticated       no valid API key
 *         ├── PermissionDenied      the key may not do this
 *         ├── NotFound
 *         ├── InvalidRequest        the request is not valid: `errors` has JSON pointers
 *         │   └── InvalidArguments  the arguments are not valid for the tool
 *         ├── Conflict              with the state of a resource, or of an Idempotency-Key
 *         ├── RateLimited
 *         ├── CredentialMissing     the tool needs a credential that is not stored
 *         ├── Unavailable           a part of the gateway, or the way to the upstream
 *         ├── DeadlineExceeded      a deadline passed at the gateway
 *         └── UpstreamFailed        the upstream failed
 *             ├── UpstreamRejected  with a status 4xx
 *             └── UpstreamTimeout
 *
 * No error has the API key, neither in its text nor in its properties.
 */

const PREFIX = "urn:utcp-gateway:problem:";

/** Base of all errors of the client. */
export class GatewayError extends Error {
  /** Whether the same request may succeed when it is repeated, without doing anything twice. */
  readonly retryable: boolean = false;

  constructor(message: string) {
    super(message);
    this.name = new.target.name;
  }
}

/** There was no whole response. `sent` is false where the gateway cannot have received the request. */
export class GatewayUnreachable extends GatewayError {
  override readonly retryable: boolean;

  constructor(
    message: string,
    readonly sent: boolean,
  ) {
    super(message);
    this.retryable = !sent;
  }
}

/** The timeout of the request passed. `sent` is false where the gateway cannot have received it; otherwise it may have made the call. */
export class GatewayTimeout extends GatewayError {
  override readonly retryable: boolean;

  constructor(
    message: string,
    readonly sent: boolean,
  ) {
    super(message);
    this.retryable = !sent;
  }
}

/** A response that is not one of the contract, as from a proxy. `status` is its HTTP status. */
export class UnexpectedResponse extends GatewayError {
  constructor(
    message: string,
    readonly status: number,
  ) {
    super(message);
  }
}

/** The stream ended before its last event: what it had is not complete. */
export class StreamBroken extends GatewayError {}

/** `names` are no tools that this key may call. */
export class UnknownTools extends GatewayError {
  constructor(readonly names: string[]) {
    super(`There are no tools of these names that the key may call: ${names.join(", ")}.`);
  }
}

/** The call of a tool failed; the message is the result that the model is given. */
export class ToolFailed extends GatewayError {}

/** The call was not made. `state` is `rejected` or `expired`, `comment` what the decision says. */
export class ApprovalDenied extends GatewayError {
  constructor(
    readonly state: string,
    readonly comment: string,
  ) {
    super(`The approval of the call is ${state}.${comment && ` ${comment}`}`);
  }
}

/** An error in a field of an input. Members that the gateway does not know are undefined. */
export interface FieldError {
  /** JSON pointer (RFC 6901). */
  pointer: string;
  detail: string;
  expected?: unknown;
  /** The name of a type. */
  received?: string;
  /** The value or name that was probably meant. */
  nearest?: string;
  example?: unknown;
}

type Members = Record<string, unknown>;

/** The gateway's problem details (RFC 9457). */
export class ProblemError extends GatewayError {
  readonly type: string;
  /** The stable last part of `type`. */
  readonly slug: string;
  readonly title: string;
  readonly detail: string;
  readonly hint: string;
  readonly documentationUrl: string | undefined;
  readonly callId: string | undefined;
  readonly errors: FieldError[];
  /** Similar names. */
  readonly suggestions: string[];
  override readonly retryable: boolean;

  /** `members` is the whole problem document, `retryAfter` the seconds of the header Retry-After. */
  constructor(
    readonly status: number,
    readonly members: Members,
    readonly retryAfter?: number,
  ) {
    const text = (name: string): string => (typeof members[name] === "string" ? (members[name] as string) : "");
    const list = (name: string): unknown[] => (Array.isArray(members[name]) ? members[name] : []);
    const errors = list("errors").filter((each): each is FieldError => typeof each === "object" && each !== null);
    const slug = slugOf(members);
    const lines = [`${status} ${slug}: ${text("detail") || text("title")}`];
    lines.push(...errors.map((each) => `${each.pointer || "(the whole)"}: ${each.detail}`));
    super([...lines, ...(text("hint") ? [text("hint")] : [])].join("\n"));
    this.type = text("type");
    this.slug = slug;
    this.title = text("title");
    this.detail = text("detail");
    this.hint = text("hint");
    this.documentationUrl = text("documentation_url") || undefined;
    this.callId = text("call_id") || undefined;
    this.errors = errors;
    this.suggestions = list("suggestions").filter((each): each is string => typeof each === "string");
    this.retryable = members["retryable"] === true;
  }
}

/** There is no valid API key. */
export class Unauthenticated extends ProblemError {}
/** The API key may not do this, or the gateway may not connect there. */
export class PermissionDenied extends ProblemError {}
/** There is no such resource that the key may see; `suggestions` are similar names. */
export class NotFound extends ProblemError {}
/** The request is not valid; `errors` says where. */
export class InvalidRequest extends ProblemError {}
/** The arguments are not valid for the tool; `errors` says where. */
export class InvalidArguments extends InvalidRequest {}
/** The request conflicts with what is stored. */
export class Conflict extends ProblemError {}
/** Too many calls; `retryAfter` says when to repeat. */
export class RateLimited extends ProblemError {}
/** The tool needs a credential that is not stored. */
export class CredentialMissing extends ProblemError {}
/** A part of the gateway, or the way to the upstream, is not available for now. */
export class Unavailable extends ProblemError {}
/** A deadline passed at the gateway. */
export class DeadlineExceeded extends ProblemError {}

/** The upstream failed. */
export class UpstreamFailed extends ProblemError {
  /** The upstream's own HTTP status; undefined where it did not respond. */
  get upstreamStatus(): number | undefined {
    const status = this.members["upstream_status"];
    return typeof status === "number" ? status : undefined;
  }

  /** The upstream's own response, as the gateway has it: JSON or text. */
  get upstreamBody(): unknown {
    return this.members["upstream_body"];
  }
}

/** The upstream rejected the call with a status 4xx. */
export class UpstreamRejected extends UpstreamFailed {}
/** The upstream did not respond in time. It may have processed the call, unless `retryable` is true. */
export class UpstreamTimeout extends UpstreamFailed {}

const SLUGS: [typeof ProblemError, string][] = [
  [Unauthenticated, "unauthenticated"],
  [PermissionDenied, "blocked-address credential-not-allowed forbidden own-approval"],
  [NotFound, "not-found"],
  [
    InvalidRequest,
    "bad-request invalid-document invalid-input method-not-allowed not-direct too-large request-header-fields-too-large " +
      "unset-variable unsupported-media-type upgrade-required uri-too-long http-version-not-supported",
  ],
  [InvalidArguments, "invalid-arguments"],
  [
    Conflict,
    "approval-outdated conflict idempotency-mismatch idempotency-not-stored idempotency-running idempotency-unknown " +
      "not-recorded recording-not-found recording-outdated " +
      "precondition-failed",
  ],
  [RateLimited, "rate-limited too-many-requests"],
  [CredentialMissing, "credential-missing"],
  [Unavailable, "call-log-unavailable circuit-open origin-busy overloaded stopping unavailable"],
  [DeadlineExceeded, "client-timeout deadline-exceeded request-timeout"],
  [
    UpstreamFailed,
    "response-too-large token-request-failed upstream-error upstream-malformed upstream-unauthorized upstream-unreachable",
  ],
  [UpstreamRejected, "upstream-rejected"],
  [UpstreamTimeout, "upstream-timeout"],
];

/** The class of each slug; a slug of a later gateway is a ProblemError. */
export const ERROR_BY_SLUG: ReadonlyMap<string, typeof ProblemError> = new Map(
  SLUGS.flatMap(([kind, slugs]) => slugs.split(" ").map((slug): [string, typeof ProblemError] => [slug, kind])),
);

/** Return the error of a problem document. */
export function problemError(status: number, members: Members, retryAfter?: number): ProblemError {
  return new (ERROR_BY_SLUG.get(slugOf(members)) ?? ProblemError)(status, members, retryAfter);
}

function slugOf(members: Members): string {
  const type = members["type"];
  return typeof type !== "string" ? "" : type.startsWith(PREFIX) ? type.slice(PREFIX.length) : type;
}
