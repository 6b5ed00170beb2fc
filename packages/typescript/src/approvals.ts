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

/** The call was not made: somebody has to approve it first. */
export class ApprovalPending extends GatewayError {
  readonly #wait: (options: WaitOptions) => Promise<CallResult>;

  constructor(
    readonly approval: ApprovalSummary,
    wait: (options: WaitOptions) => Promise<CallResult>,
  ) {
    super(`The call waits for the approval ${approval.id}.`);
    this.#wait = wait;
  }

  /** Id of the approval. */
  get id(): string {
    return this.approval.id;
  }

  /** Wait for the decision and return the value of the call; throw as `waitForApproval` does. */
  async wait(options: WaitOptions = {}): Promise<unknown> {
    return (await this.#wait(options)).value;
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
      throw new GatewayTimeout(`The approval ${id} was not decided within ${timeout / 1000} seconds.`);
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
