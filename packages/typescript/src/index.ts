/** The tools of a gateway in TypeScript: search them, give them to a model, call them. */

export { type AiSdkSchema, type AiSdkTool, type ContentPart, ToolContent } from "./ai_sdk.js";
export { ApprovalPending, type WaitOptions } from "./approvals.js";
export * from "./errors.js";
export {
  type ApprovalsOptions,
  type CallOptions,
  type ContinuationOptions,
  type FilterOptions,
  Gateway,
  type RunOptions,
  type SearchOptions,
  type ToolsOptions,
} from "./gateway.js";
export type * from "./models.js";
export type { CallResult } from "./results.js";
export { type GatewayOptions, type Strict, VERSION } from "./settings.js";
export type { Stream, StreamEnd, StreamEvent } from "./streams.js";
