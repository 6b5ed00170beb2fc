/** Calls that wait for an approval. */

import { ApprovalDenied, GatewayError, GatewayTimeout, problemError } from "./errors.js";
import { sleep } from "./exchange.js";
import type { ApprovalResult, ApprovalSummary, ApprovalView } from "./models.js";
import { approvedResult, type CallResult } from "./results.js";

const POLL_MS = 500;
const MAX_POLL_MS = 10_000;

export interface WaitOptions {
  /** Milliseconds; without them, as long as the approval is open. */
  timeout?: number | undefined;
  signal?: AbortSignal | undefined;
}

interface Decisions {
  waitForApproval(id: string, options: WaitOptions): Promise<CallResult>;
  approve(id: string, comment: string): Promise<ApprovalView>;
  reject(id: string, comment: string): Promise<ApprovalView>;
}

/** The call was not made: somebody has to approve it first, with another key than that of the call. */
export class ApprovalPending extends GatewayError {
  readonly #gateway: Decisions;

  constructor(
    readonly approval: ApprovalSummary,
    gateway: Decisions,
  ) {
    super(`The call waits for the approval ${approval.id}.`);
    this.#gateway = gateway;
  }

  /** Id of the approval. */
  get id(): string {
    return this.approval.id;
  }

  /** Wait for the decision and return the value of the call; throw as `waitForApproval` does. */
  async wait(options: WaitOptions = {}): Promise<unknown> {
    return (await this.#gateway.waitForApproval(this.id, options)).value;
  }

  /** Approve the call, which makes it; throw PermissionDenied for the key that requested it. */
  approve(comment: string = ""): Promise<ApprovalView> {
    return this.#gateway.approve(this.id, comment);
  }

  /** Reject the call. */
  reject(comment: string = ""): Promise<ApprovalView> {
    return this.#gateway.reject(this.id, comment);
  }
}

interface Approvals {
  approval(id: string, signal?: AbortSignal): Promise<ApprovalView>;
  approvalResult(id: string, signal?: AbortSignal): Promise<ApprovalResult>;
}

/** Return the result of the call once it has been approved and made. */
export async function waitForApproval(approvals: Approvals, id: string, options: WaitOptions): Promise<CallResult> {
  const { timeout = Infinity, signal } = options;
  let delay = POLL_MS;
  for (let waited = 0; ; ) {
    const { state, comment } = await approvals.approval(id, signal);
    if (state === "rejected" || state === "expired") throw new ApprovalDenied(state, comment);
    if (state === "executed" || state === "failed") break;
    if (waited >= timeout) {
      throw new GatewayTimeout(`The approval ${id} was not decided within ${timeout / 1000} seconds.`, true);
    }
    delay = Math.min(delay, Math.max(timeout - waited, 10));
    await sleep(delay, signal);
    waited += delay;
    delay = Math.min(MAX_POLL_MS, delay * 1.5);
  }
  const result = await approvals.approvalResult(id, signal);
  if (result.problem) {
    const status = result.problem["status"];
    throw problemError(typeof status === "number" ? status : 500, result.problem);
  }
  return approvedResult(result);
}
