/** Tools for the Vercel AI SDK, made without importing it. */

import { ToolFailed } from "./errors.js";

// What `jsonSchema()` of the AI SDK marks its schemas with, so that it takes them as they are.
const SCHEMA = Symbol.for("vercel.ai.schema");

/** A schema that the AI SDK takes: by its type that of standardschema.dev, which `ai` 6 and 7 take, too. */
export interface AiSdkSchema {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => { readonly value: unknown };
    readonly jsonSchema: {
      readonly input: (options: { readonly target: string }) => Record<string, unknown>;
      readonly output: (options: { readonly target: string }) => Record<string, unknown>;
    };
  };
}

/** An image or a file in a result. */
export type ContentPart =
  | { type: "text"; text: string }
  | { type: "image-data"; data: string; mediaType: string }
  | { type: "file-data"; data: string; mediaType: string };

/** A result with images or files. */
export class ToolContent {
  constructor(readonly parts: ContentPart[]) {}
}

type Json = any;

type ModelOutput = { type: "text"; value: string } | { type: "json"; value: Json } | { type: "content"; value: ContentPart[] };

/** A tool of a ToolSet of the AI SDK. */
export interface AiSdkTool {
  description: string;
  inputSchema: AiSdkSchema;
  strict?: boolean;
  /** Call the tool; throw ToolFailed with what the model is to know. */
  execute(input: Json, options: { toolCallId: string; abortSignal?: AbortSignal | undefined }): Promise<Json>;
  /** What the model is given as the result. */
  toModelOutput(options: { output: Json }): ModelOutput;
}

/** A tool of an export in the dialect `ai-sdk`. */
export interface ExportedTool {
  description: string;
  inputSchema: Record<string, unknown>;
  strict?: boolean;
}

type Output = ModelOutput | { type: "error-text"; value: string };

/** Runs a call, and returns the messages of the dialect `ai-sdk`. */
export type Run = (call: object, signal: AbortSignal | undefined) => Promise<unknown[]>;

/** Return a tool that runs its calls at the gateway. */
export function aiSdkTool(name: string, { description, inputSchema, strict }: ExportedTool, run: Run): AiSdkTool {
  const standard: AiSdkSchema["~standard"] = {
    version: 1,
    vendor: "utcp-gateway",
    // The gateway validates arguments, and its errors have more to say.
    validate: (value) => ({ value }),
    jsonSchema: { input: () => inputSchema, output: () => inputSchema },
  };
  return {
    description,
    inputSchema: { "~standard": standard, [SCHEMA]: true, jsonSchema: inputSchema, validate: undefined } as AiSdkSchema,
    ...(strict === undefined ? {} : { strict }),
    async execute(input, { toolCallId, abortSignal }) {
      const messages = await run({ type: "tool-call", toolCallId, toolName: name, input }, abortSignal);
      const output = (messages as { content: { output: Output }[] }[])[0]?.content[0]?.output;
      if (!output) throw new ToolFailed("The call has no result.");
      if (output.type === "error-text") throw new ToolFailed(output.value);
      return output.type === "content" ? new ToolContent(output.value) : output.value;
    },
    toModelOutput({ output }) {
      if (output instanceof ToolContent) return { type: "content", value: output.parts };
      return typeof output === "string" ? { type: "text", value: output } : { type: "json", value: output ?? null };
    },
  };
}
