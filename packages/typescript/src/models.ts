// Types of responses, generated from the contract; `make client-models` writes them anew.
export type paths = Record<string, never>;
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description How the pages of a list follow each other. */
        AllPagesInput: {
            /** @description The input of the tool. */
            argument?: string;
            /** @description `link`: the header Link with rel=next; `next`: a URL at `pointer` of the response; `cursor`: a value at `pointer`, which `argument` has in the next call; `page`, `offset`: numbers that `argument` has. */
            by: string;
            /** @description JSON pointer to the list; empty where it is the response. */
            items?: string;
            /** @description At most so many. */
            max_pages?: number;
            /** @description JSON pointer to the URL or cursor of the next page. */
            pointer?: string;
        };
        /** @description Why an approval failed, or expired before its time. */
        ApprovalFailure: {
            detail: string;
            status: number;
            title: string;
            type: string;
        };
        /** @description A page of approvals. */
        ApprovalPage: {
            items: components["schemas"]["ApprovalSummary"][];
            /** @description The `cursor` of the next page; null on the last page. */
            next_cursor: string | null;
            /** @description The number of items on all pages together; null where there are more than 10,000, or where they were not counted. */
            total: number | null;
            /** @description 10,000 where there are more items than that, else null. */
            total_at_least: number | null;
        };
        /** @description The result of an approved call. Exactly one of `json`, `text`, `base64` and `problem` is not null, unless the result is the JSON value null or empty. */
        ApprovalResult: {
            /** @description The upstream's response, where it is neither JSON nor text. */
            base64?: string | null;
            /** @description The record of the call, `GET /calls/{call_id}`. */
            call_id: string | null;
            /** @description Headers of the upstream's response that are passed on, e.g. `Location`, and `X-Pages`. */
            headers?: {
                [key: string]: string;
            };
            /** @description The upstream's JSON. */
            json?: unknown;
            media_type: string;
            /** @description The problem document that the call failed with (RFC 9457). */
            problem?: {
                [key: string]: unknown;
            } | null;
            /** @description The upstream's text. */
            text?: string | null;
            /** @description The upstream's own status, where it responded. */
            upstream_status: number | null;
        };
        /** @description What an approval is about. */
        ApprovalSubject: {
            name: string;
            provider: string;
            type: string;
        };
        /** @description An approval as an item of a list. */
        ApprovalSummary: {
            /** @description The record of the call that was made, `GET /calls/{call_id}`. */
            call_id: string | null;
            /** @description The comment of the decision. */
            comment: string;
            decided_at: string | null;
            /** @description Id of the key that decided. */
            decided_by: string | null;
            /** @description What the key of this request may decide about it now; empty where it is not pending. Absent in the response to a call. */
            decisions?: string[] | null;
            /** @description When it was executed, failed, was rejected or expired. */
            ended_at: string | null;
            /** @description When it expires, unless it is decided before. */
            expires_at: string;
            failure: components["schemas"]["ApprovalFailure"] | null;
            /** @description All that is not shown of what would be done: the rest is shown exactly as it would be sent or applied. Null in lists, and where it is not known. */
            hidden?: components["schemas"]["HiddenValue"][] | null;
            id: string;
            /** @description `origin`: calls or token requests of a provider would go elsewhere. `credential`: stored credentials would be used in another way. `definition`: other security. `call`: one call. */
            kind: string;
            requested_at: string;
            /** @description Id of the key that requested it; `oauth:` and a digest for an access token. */
            requested_by: string;
            /** @description Who requested a call with an access token; null for API keys. */
            requester?: components["schemas"]["TokenHolder"] | null;
            /** @description `pending`; `approved` while the call is made; then `executed`, `failed`, `rejected` or `expired`. */
            state: string;
            subject: components["schemas"]["ApprovalSubject"];
        };
        /** @description An approval with what it is about. */
        ApprovalView: {
            /** @description Of a call: its arguments as they are sent, but for what `hidden` lists, which is `***`; null for other kinds. */
            arguments: {
                [key: string]: unknown;
            } | null;
            /** @description The record of the call that was made, `GET /calls/{call_id}`. */
            call_id: string | null;
            /** @description The comment of the decision. */
            comment: string;
            decided_at: string | null;
            /** @description Id of the key that decided. */
            decided_by: string | null;
            /** @description What the key of this request may decide about it now; empty where it is not pending. Absent in the response to a call. */
            decisions?: string[] | null;
            /** @description When it was executed, failed, was rejected or expired. */
            ended_at: string | null;
            /** @description When it expires, unless it is decided before. */
            expires_at: string;
            failure: components["schemas"]["ApprovalFailure"] | null;
            /** @description All that is not shown of what would be done: the rest is shown exactly as it would be sent or applied. Null in lists, and where it is not known. */
            hidden?: components["schemas"]["HiddenValue"][] | null;
            id: string;
            /** @description `origin`: calls or token requests of a provider would go elsewhere. `credential`: stored credentials would be used in another way. `definition`: other security. `call`: one call. */
            kind: string;
            /** @description Of a provider: the number of its pending changes. */
            operation_count: number | null;
            /** @description Of a provider: the first 1,000 of its pending changes, as in `pending` of the provider, which has all; null for calls. */
            operations: {
                [key: string]: unknown;
            }[] | null;
            requested_at: string;
            /** @description Id of the key that requested it; `oauth:` and a digest for an access token. */
            requested_by: string;
            /** @description Who requested a call with an access token; null for API keys. */
            requester?: components["schemas"]["TokenHolder"] | null;
            /** @description `pending`; `approved` while the call is made; then `executed`, `failed`, `rejected` or `expired`. */
            state: string;
            subject: components["schemas"]["ApprovalSubject"];
        };
        /** @description A part of the rest of a result. */
        ContinuationPart: {
            /** @description The handle of the next part; null at the end. */
            continuation: string | null;
            /** @description The next items of the list that was cut; null where the part is a text. */
            items: unknown[] | null;
            /** @description What is to be known of this part, e.g. that it was cut. */
            notes: string[];
            /** @description The next part of the text, or the items as a table; null where there are `items`. */
            text: string | null;
        };
        /** @description A limit of the dialect for one request that the export exceeds. */
        ExceededLimit: {
            limit: string;
            max: number;
            value: number;
        };
        /** @description What an export does not have, or has in another form. */
        ExportReport: {
            /** @description Date of the sources of the table. */
            checked_on?: string | null;
            limits: components["schemas"]["ExceededLimit"][];
            /** @description Number of tools beyond the limit. */
            omitted: number;
            tools: components["schemas"]["ToolExportReport"][];
            /** @description Names that are no tools that this key may call. */
            unknown: string[];
            /** @description Version of the table of the dialect. */
            version?: number | null;
        };
        /** @description One error in the input. */
        FieldErrorView: {
            detail: string;
            /** @description A valid value. */
            example?: unknown;
            expected?: unknown;
            /** @description The valid value or name that was probably meant. */
            nearest?: string | null;
            /** @description RFC 6901 JSON pointer into the body, or #/query/..., #/path/... */
            pointer: string;
            /** @description The type of what was given there. */
            received?: string | null;
        };
        /** @description A scope, and what it allows. */
        GrantedScope: {
            description: string;
            documentation_url: string;
            name: string;
        };
        /** @description A value that is not shown as it is sent. */
        HiddenValue: {
            /** @description The size of the whole value as JSON, in bytes. */
            bytes: number;
            /** @description JSON pointer to it, from the resource that has `hidden`. */
            pointer: string;
            /** @description `declared-secret`: by `writeOnly` or `format: password` of the tool's inputs. `known-secret`: it has a secret that the gateway knows. `too-large`: to be shown, or to tell whether it is a secret, or with more than 1,000 hidden parts. `earlier-release`: hidden by a release that did not list what it hid. */
            reason: string;
        };
        /** @description Why a match has its score: the sum of the shares, plus 100 where the search is the tool's name; 200 and more where it is pinned. */
        HitExplanation: {
            /** @description The cosine of the vectors of search and tool; null where the ranking is by words. */
            cosine: number | null;
            /** @description The search is the tool's name. */
            exact: boolean;
            /** @description It is pinned for the words of the search. */
            pinned: boolean;
            /** @description From 0 to 1: how much the tool was called after such searches. */
            prior: number;
            prior_share: number;
            vector_share: number;
            words: components["schemas"]["WordContribution"][];
            /** @description BM25 of all words. */
            words_score: number;
            /** @description `words_score` by that of the best match. */
            words_share: number;
        };
        /** @description A warning about a key. */
        KeyWarningView: {
            /** @description What the warning is about; new codes may be added. */
            code: string;
            detail: string;
            /** @description What to do. */
            hint: string;
        };
        /** @description The key of the request, or its access token, and what it may do. Of a token, `id` is derived from its principal, and `created_at` is when it was issued, or first used where it does not say. */
        MeView: {
            /** @description For whom the access token was issued; null for an API key. */
            access_token?: components["schemas"]["TokenView"] | null;
            /** @description Its repair of arguments; null where the toolset or the interface decides. */
            argument_repair?: string | null;
            created_at: string;
            expires_at: string | null;
            id: string;
            /** @description Whether it has `admin`, which includes every other scope. */
            is_admin: boolean;
            /** @description Updated about once a minute. */
            last_used_at: string | null;
            name: string;
            owner: string;
            providers: string[] | null;
            purpose: string;
            /** @description Its own rate limit; null where the gateway's default applies. */
            rate_limit: components["schemas"]["RateLimitView"] | null;
            /** @description null where no rate limit applies. */
            rate_limit_usage: components["schemas"]["RateLimitUsage"] | null;
            revoked_at: string | null;
            /** @description The key that this one succeeds by rotation. */
            rotated_from: string | null;
            /** @description How MCP and `describe_tools` show schemas: `portable`: as all released clients of agents read them, without references and look-around; `full`: as they are, with `$defs`. Calls are validated by the whole schema. null: as the toolset says, else `portable`. */
            schemas?: string | null;
            /** @description What its `scopes` allow. */
            scope_descriptions: components["schemas"]["GrantedScope"][];
            scopes: string[];
            state: string;
            /** @description The key that succeeds this one by rotation. */
            successor_id: string | null;
            tags: string[] | null;
            tenant_id: string;
            /** @description The toolsets through which alone it uses tools; null: no such limit. */
            toolsets: string[] | null;
            /** @description Whether its calls reach their upstreams, are recorded, replayed or mocked; null: they do, unless a toolset says otherwise. The calls of a key that replays or mocks never do, by any address. */
            upstream?: components["schemas"]["UpstreamModeInput"] | null;
            visible: components["schemas"]["VisibleView"];
            /** @description What needs attention: the key expires soon, was not used for long, is an admin key without expiry, or is restricted to what does not exist. Empty for a key that is not valid. */
            warnings: components["schemas"]["KeyWarningView"][];
        };
        /** @description RFC 9457 problem details; `type` is the same in every deployment, and ends in a stable slug. */
        Problem: {
            call_id?: string | null;
            /** @description What happened in this case. */
            detail: string;
            /** @description The page that explains the problem type, or the scope that the key lacks: an absolute URL, or a path of the gateway. Absent where the request was rejected before it was read. */
            documentation_url?: string | null;
            errors?: components["schemas"]["FieldErrorView"][] | null;
            /** @description One sentence on what to do next. */
            hint: string;
            /** @description The scopes that the API key lacks; GET /scopes describes each. */
            missing_scopes?: string[] | null;
            /** @description Whether the same request may succeed when it is repeated, without doing anything twice; wait for the seconds in Retry-After first, where there is one. */
            retryable: boolean;
            status: number;
            /** @description Similar names that the API key may see, the most similar first. */
            suggestions?: string[] | null;
            title: string;
            type: string;
            upstream_status?: number | null;
        } & {
            [key: string]: unknown;
        };
        /** @description The rate limit for calls of tools that applies to a key, and what is left of it now. */
        RateLimitUsage: {
            burst: number;
            /** @description Whether it is the gateway's rate limit for keys without their own. */
            is_default: boolean;
            per_seconds: number;
            /** @description Calls that could be made at once. */
            remaining: number;
            requests: number;
            /** @description Seconds until the limit is unused again. */
            reset_seconds: number;
        };
        /** @description A rate limit for calls of tools: `requests` per `per_seconds`, of which `burst` may be made at once. */
        RateLimitView: {
            burst: number;
            per_seconds: number;
            requests: number;
        };
        /** @description The state of the gateway. `degraded`: without PostgreSQL, only tools in the caches can be called. */
        Ready: {
            database: string;
            redis: string;
            status: string;
        };
        /** @description What the gateway does with the responses of a tool before a client gets them. */
        ResponseOptionsInput: {
            /** @description Read all pages of a list, and return them as one. Only for tools that are safe. */
            all_pages?: components["schemas"]["AllPagesInput"] | null;
            /** @description Follow a response with 202 and `Location` until the operation is done. */
            poll?: boolean;
        };
        /** @description For whom an access token was issued. */
        TokenHolder: {
            /** @description Claim `client_id` or `azp`; null without it. */
            client: string | null;
            /** @description Claim `iss`. */
            issuer: string;
            /** @description Claim `sub`. */
            subject: string;
        };
        /** @description For whom the access token of the request was issued. */
        TokenView: {
            /** @description Claim `client_id` or `azp`; null without it. */
            client: string | null;
            /** @description Claim `iss`. */
            issuer: string;
            /** @description `oauth:` and a digest of issuer, subject and client: the `key_id` of its calls. */
            principal: string;
            /** @description Claim `sub`. */
            subject: string;
        };
        /** @description What agents are told about a tool; null: unknown. */
        ToolAnnotations: {
            /** @description It may delete or overwrite. */
            destructive: boolean | null;
            /** @description Inputs that clients of MCP repeat in the header `Mcp-Param-<token>`, with the tokens. */
            header_inputs?: {
                [key: string]: string;
            };
            /** @description Repeating a call changes nothing more. */
            idempotent: boolean | null;
            /** @description It deals with more than a fixed set of things. */
            open_world: boolean;
            /** @description It changes nothing. */
            read_only: boolean;
            /** @description What the ToolClad manifest of the tool states; null for other tools. */
            risk_tier?: string | null;
        };
        /** @description What became of one call, whatever the dialect. */
        ToolCallResult: {
            /** @description The id of the call's record; null where no call was made. */
            call_id: string | null;
            /** @description The handle by which the rest of a cut result is read. */
            continuation: string | null;
            /** @description The id of the identical call in the same message that was made in place of this. */
            duplicate_of?: string | number | null;
            /** @description The members of the problem of a failed call. */
            error?: {
                [key: string]: unknown;
            } | null;
            /** @description The id of the call, or one made up where its dialect has none. */
            id: string | number;
            is_error: boolean;
            /** @description The name that the model called. */
            name: string;
            /** @description Repairs of values, cuts, and how to get the rest. */
            notes: string[];
            /** @description JSON pointer to the call in the request. */
            position: string;
            /** @description What was repaired to read the arguments. */
            repairs: string[];
            /** @description Seconds after which the call may be repeated. */
            retry_after?: number | null;
            /** @description The status that the call route would have responded with. */
            status: number | null;
            /** @description The canonical name of the tool; null where there is none. */
            tool: string | null;
        };
        /** @description The results of a model's calls, in its dialect and as a list. */
        ToolCallsResponse: {
            /** @description Why the model's output was cut; null where it was not. */
            cut: string | null;
            /** @description The dialect of the request and of `messages`. */
            format: string;
            /** @description Append these to the conversation, after the model's message. */
            messages: unknown[];
            results: components["schemas"]["ToolCallResult"][];
        };
        /** @description What a tool costs a model. */
        ToolCost: {
            /** @description Bytes of a response on average, as its source states them; null where it does not. */
            average_response_size: number | null;
            /** @description Estimate of the tokens of its definition: bytes of its JSON / 4. */
            tokens: number;
        };
        /** @description A tool with its schemas and its call template (without secrets). */
        ToolDetails: {
            /** @description The name that agents see: the alias in at most 45 characters. */
            agent_name: string;
            /** @description The name for clients that allow no dot in names. */
            alias: string;
            /** @description What its method of HTTP tells, and what an operator has set. */
            annotations: components["schemas"]["ToolAnnotations"];
            /** @description Whether an executor is connected that executes it; null for tools that no executor executes. */
            available?: boolean | null;
            average_response_size: number | null;
            call_template: {
                [key: string]: unknown;
            };
            call_url: string;
            cost: components["schemas"]["ToolCost"];
            created_at: string;
            /** @description Created with `POST /tools`, not imported. */
            custom: boolean;
            deprecated: boolean;
            description: string;
            /** @description Whether it can be called; also false where its provider is disabled. */
            enabled: boolean;
            /** @description JSON Schema of the arguments object. */
            inputs: {
                [key: string]: unknown;
            };
            /** @description Further words by which search finds it. */
            keywords?: string[];
            /** @description Whether its provider has no credential that its calls need; null where that is not known yet. */
            missing_credential?: boolean | null;
            /** @description Canonical name, `provider.tool`. */
            name: string;
            /** @description When the gateway set `publish_output_schema` to false because responses deviated from the schema; null where it did not, or where the schema was published again. */
            output_schema_withdrawn_at?: string | null;
            /** @description JSON Schema of the response, `{}` where unknown. */
            outputs: {
                [key: string]: unknown;
            };
            provider: string;
            /** @description Whether agents see the schema of its responses, which are compared with it then. */
            publish_output_schema: boolean;
            /** @description Whether each call waits until another key has approved it (202). */
            requires_approval: boolean;
            /** @description Whether all pages of a list are read, and operations are polled. */
            response_options?: components["schemas"]["ResponseOptionsInput"] | null;
            /** @description Credential slots that it needs: any one alternative, with all of its slots. */
            security: {
                [key: string]: unknown;
            }[][];
            /** @description The steps by which a large tool was reduced for models. */
            slimmed: string[];
            /** @description With `source=true`: what the source says of it, else null. */
            source?: components["schemas"]["ToolSource"] | null;
            tags: string[];
            updated_at: string;
            /** @description In a list with `usage=true`, else null. */
            usage?: components["schemas"]["ToolUsageView"] | null;
            /** @description Its ETag is this number in quotes. */
            version: number;
        };
        /** @description What a call of a tool may do. */
        ToolEffects: {
            deprecated: boolean;
            /** @description It may delete or overwrite; true also where nothing is known and it is not read-only. */
            destructive: boolean;
            /** @description Repeating a call changes nothing more; null: unknown. */
            idempotent: boolean | null;
            /** @description It changes nothing. */
            read_only: boolean;
            /** @description Each call waits until another key has approved it (202). */
            requires_approval: boolean;
        };
        /** @description Tools in the dialect of a client. */
        ToolExport: {
            /** @description By name in the export: the canonical name, and how arguments are converted back. `POST /tool-calls` does that. */
            aliases: {
                [key: string]: {
                    [key: string]: unknown;
                };
            };
            format: string;
            /** @description With `json-prompt`: the text for the model. */
            prompt?: string | null;
            report: components["schemas"]["ExportReport"];
            /** @description What the client takes as its tools, as it is. */
            tools: {
                [key: string]: unknown;
            }[] | {
                [key: string]: {
                    [key: string]: unknown;
                };
            };
        };
        /** @description What the dialect cannot say about one tool. */
        ToolExportReport: {
            /** @description The name in the export; null where it is not in there. */
            alias: string | null;
            grade: string;
            losses: components["schemas"]["ToolLoss"][];
            /** @description Losses that are not listed. */
            more_losses?: number;
            /** @description Canonical name. */
            name: string;
            strict: boolean;
            /** @description Why it is not strict, or not in the export. */
            strict_reason: string | null;
            /** @description Estimate of what the definition costs a model. */
            tokens: number;
        };
        /** @description How the upstream of a tool has responded in the last hour to the calls of all keys. */
        ToolHealthView: {
            /** @description How many calls there were, rounded down to 5 or a power of ten. */
            calls_at_least: number;
            /** @description Share of the calls that failed at the upstream or on the way to it. Calls that the upstream rejected (4xx) and those with wrong arguments are no errors of the tool. */
            error_rate: number;
            /** @description The 95th percentile of the durations; null where unknown. */
            p95_ms: number | null;
        };
        /** @description A search result. */
        ToolHit: {
            alias: string;
            /** @description Whether an executor is connected that executes it; null for tools that no executor executes. */
            available?: boolean | null;
            call_url: string;
            cost: components["schemas"]["ToolCost"];
            description: string;
            effects: components["schemas"]["ToolEffects"];
            /** @description With `explain=true`: why it has its score; null where tools are listed by name, and for a tool of a toolset that was found by its name there. */
            explanation?: components["schemas"]["HitExplanation"] | null;
            /** @description null where the tool had fewer than five calls in the last hour. */
            health?: components["schemas"]["ToolHealthView"] | null;
            inputs: {
                [key: string]: unknown;
            };
            /** @description Whether its provider has no credential that its calls need; null where that is not known yet. `GET /providers/{name}` has the slots, for keys with `providers:read`. */
            missing_credential?: boolean | null;
            name: string;
            provider: string;
            /** @description What the words contribute, 1 at most, and vectors and use, where there are any; 100 more where the query is the tool's name; 200 or more where it is pinned; 0 without a query. */
            score: number;
            /** @description Its inputs on one line, required ones with a star; at most 300 characters. */
            signature: string;
            tags: string[];
        };
        /** @description What became of a keyword that the dialect does not have. */
        ToolLoss: {
            action: string;
            /** @description The exported schema says the same, says it as text, accepts more, or rejects some. */
            effect: string;
            keyword: string;
            /** @description Where it is in the original schema (RFC 6901). */
            pointer: string;
            /** @description Whether the gateway checks it when the tool is called: always. */
            server_checks: boolean;
            /** @description Its value; a long one is cut. */
            value: unknown;
        };
        /** @description A page of tools. */
        ToolPage: {
            items: components["schemas"]["ToolSummary"][];
            /** @description The `cursor` of the next page; null on the last page. */
            next_cursor: string | null;
            /** @description The number of items on all pages together; null where there are more than 10,000, or where they were not counted. */
            total: number | null;
            /** @description 10,000 where there are more items than that, else null. */
            total_at_least: number | null;
        };
        /** @description Where clients use a toolset. */
        ToolsetAddresses: {
            /** @description Its MCP server. */
            mcp: string;
            search: string;
            /** @description Takes the response of a model. */
            tool_calls: string;
            /** @description Its UTCP manual. */
            utcp: string;
        };
        /** @description A search result. */
        ToolsetHit: {
            /** @description Whether an executor is connected that executes it; null for tools that no executor executes. */
            available?: boolean | null;
            call_url: string;
            cost: components["schemas"]["ToolCost"];
            description: string;
            effects: components["schemas"]["ToolEffects"];
            /** @description With `explain=true`: why it has its score; null where tools are listed by name, and for a tool of a toolset that was found by its name there. */
            explanation?: components["schemas"]["HitExplanation"] | null;
            /** @description null where the tool had fewer than five calls in the last hour. */
            health?: components["schemas"]["ToolHealthView"] | null;
            /** @description JSON Schema of the arguments object, without preset ones. */
            inputs: {
                [key: string]: unknown;
            };
            /** @description Whether its provider has no credential that its calls need; null where that is not known yet. `GET /providers/{name}` has the slots, for keys with `providers:read`. */
            missing_credential?: boolean | null;
            /** @description The name that agents see. */
            name: string;
            provider: string;
            read_only: boolean;
            /** @description Its inputs on one line, required ones with a star; at most 300 characters. */
            signature: string;
            tags: string[];
            title: string;
        };
        /** @description A page of toolsets. */
        ToolsetPage: {
            items: components["schemas"]["ToolsetSummary"][];
            /** @description The `cursor` of the next page; null on the last page. */
            next_cursor: string | null;
            /** @description The number of items on all pages together; null where there are more than 10,000, or where they were not counted. */
            total: number | null;
            /** @description 10,000 where there are more items than that, else null. */
            total_at_least: number | null;
        };
        /** @description A part of a definition that has no effect now. */
        ToolsetProblem: {
            detail: string;
            kind: string;
            /** @description What the definition names. */
            name: string;
        };
        /** @description A toolset as an item of a list. */
        ToolsetSummary: {
            addresses: components["schemas"]["ToolsetAddresses"];
            created_at: string;
            description: string;
            name: string;
            title: string;
            /** @description The number of its tools that this key may call. */
            tools: number;
            updated_at: string;
            /** @description Its ETag is this number in quotes. */
            version: number;
        };
        /** @description A tool of a toolset. */
        ToolsetTool: {
            /** @description The name that agents see. */
            name: string;
            read_only: boolean;
            title: string;
            /** @description Canonical name. */
            tool: string;
        };
        /** @description A toolset with its tools. */
        ToolsetView: {
            addresses: components["schemas"]["ToolsetAddresses"];
            created_at: string;
            /** @description As in `PUT /toolsets/{name}`; null without `providers:read`, and for a key that is restricted: it has the preset values. */
            definition: {
                [key: string]: unknown;
            } | null;
            description: string;
            /** @description The tools that this key may call, by name. */
            members: components["schemas"]["ToolsetTool"][];
            name: string;
            /** @description Parts of the definition that have no effect now, e.g. tools that do not exist; empty where the definition is null. */
            problems: components["schemas"]["ToolsetProblem"][];
            title: string;
            /** @description The number of its tools that this key may call. */
            tools: number;
            updated_at: string;
            /** @description Its ETag is this number in quotes. */
            version: number;
        };
        /** @description What the source of a tool says, where people may have said otherwise. */
        ToolSource: {
            description: string;
            keywords: string[];
            tags: string[];
        };
        /** @description A tool as an item of a list. */
        ToolSummary: {
            /** @description The name that agents see: the alias in at most 45 characters. */
            agent_name: string;
            /** @description The name for clients that allow no dot in names. */
            alias: string;
            /** @description What its method of HTTP tells, and what an operator has set. */
            annotations: components["schemas"]["ToolAnnotations"];
            /** @description Whether an executor is connected that executes it; null for tools that no executor executes. */
            available?: boolean | null;
            call_url: string;
            cost: components["schemas"]["ToolCost"];
            /** @description Created with `POST /tools`, not imported. */
            custom: boolean;
            deprecated: boolean;
            description: string;
            /** @description Whether it can be called; also false where its provider is disabled. */
            enabled: boolean;
            /** @description Further words by which search finds it. */
            keywords?: string[];
            /** @description Whether its provider has no credential that its calls need; null where that is not known yet. */
            missing_credential?: boolean | null;
            /** @description Canonical name, `provider.tool`. */
            name: string;
            provider: string;
            /** @description Whether agents see the schema of its responses, which are compared with it then. */
            publish_output_schema: boolean;
            /** @description Whether each call waits until another key has approved it (202). */
            requires_approval: boolean;
            /** @description Whether all pages of a list are read, and operations are polled. */
            response_options?: components["schemas"]["ResponseOptionsInput"] | null;
            tags: string[];
            updated_at: string;
            /** @description In a list with `usage=true`, else null. */
            usage?: components["schemas"]["ToolUsageView"] | null;
            /** @description Its ETag is this number in quotes. */
            version: number;
        };
        /** @description The calls of a tool in the last 7 days, by all keys. */
        ToolUsageView: {
            calls: number;
            /** @description Calls with an outcome other than ok, invalid-response, cancelled and replayed. */
            errors: number;
            /** @description When the last of the calls that are still recorded began; null where there is none. */
            last_called_at: string | null;
            /** @description The 95th percentile of the durations; null where unknown. */
            p95_ms: number | null;
        };
        /** @description Whether calls reach their upstreams. */
        UpstreamModeInput: {
            /** @description `live`: they do. `record`: they do, and what the upstreams respond is stored in the recording. `replay`: the recording responds, and nothing is sent. `mock`: responses are made from examples and schemas of the tools, and nothing is sent. */
            mode: string;
            /** @description The name of the recording, for `record` and `replay`. */
            recording?: string | null;
            /** @description Chooses the responses of `mock`: the same ones for the same seed and arguments. */
            seed?: number;
        };
        /** @description How much a key may see. */
        VisibleView: {
            /** @description Providers within its restrictions; 0 without `providers:read` and `tools:read`. Of a key that is limited to toolsets: those of the tools in them. */
            providers: number;
            /** @description Tools within its restrictions, disabled ones included; 0 without `tools:read` and `tools:call`. Of a key that is limited to toolsets: the enabled ones in them. */
            tools: number;
        };
        /** @description The response to the call of a tool that requires approval. */
        WaitingForApproval: {
            approval: components["schemas"]["ApprovalSummary"];
        };
        /** @description What one word contributes to a match. */
        WordContribution: {
            /** @description Where it matches best: `head` is name, tags, keywords and the first sentence of the description, `body` the rest and the inputs, `provider` the provider's name and title. */
            field: string;
            /** @description Its part of `words_score`. */
            score: number;
            /** @description The term of the search whose synonym it is. */
            synonym_of: string | null;
            /** @description The word as it was searched for. */
            word: string;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type AllPagesInput = components['schemas']['AllPagesInput'];
export type ApprovalFailure = components['schemas']['ApprovalFailure'];
export type ApprovalPage = components['schemas']['ApprovalPage'];
export type ApprovalResult = components['schemas']['ApprovalResult'];
export type ApprovalSubject = components['schemas']['ApprovalSubject'];
export type ApprovalSummary = components['schemas']['ApprovalSummary'];
export type ApprovalView = components['schemas']['ApprovalView'];
export type ContinuationPart = components['schemas']['ContinuationPart'];
export type ExceededLimit = components['schemas']['ExceededLimit'];
export type ExportReport = components['schemas']['ExportReport'];
export type FieldErrorView = components['schemas']['FieldErrorView'];
export type GrantedScope = components['schemas']['GrantedScope'];
export type HiddenValue = components['schemas']['HiddenValue'];
export type HitExplanation = components['schemas']['HitExplanation'];
export type KeyWarningView = components['schemas']['KeyWarningView'];
export type MeView = components['schemas']['MeView'];
export type Problem = components['schemas']['Problem'];
export type RateLimitUsage = components['schemas']['RateLimitUsage'];
export type RateLimitView = components['schemas']['RateLimitView'];
export type Ready = components['schemas']['Ready'];
export type ResponseOptionsInput = components['schemas']['ResponseOptionsInput'];
export type TokenHolder = components['schemas']['TokenHolder'];
export type TokenView = components['schemas']['TokenView'];
export type ToolAnnotations = components['schemas']['ToolAnnotations'];
export type ToolCallResult = components['schemas']['ToolCallResult'];
export type ToolCallsResponse = components['schemas']['ToolCallsResponse'];
export type ToolCost = components['schemas']['ToolCost'];
export type ToolDetails = components['schemas']['ToolDetails'];
export type ToolEffects = components['schemas']['ToolEffects'];
export type ToolExport = components['schemas']['ToolExport'];
export type ToolExportReport = components['schemas']['ToolExportReport'];
export type ToolHealthView = components['schemas']['ToolHealthView'];
export type ToolHit = components['schemas']['ToolHit'];
export type ToolLoss = components['schemas']['ToolLoss'];
export type ToolPage = components['schemas']['ToolPage'];
export type ToolsetAddresses = components['schemas']['ToolsetAddresses'];
export type ToolsetHit = components['schemas']['ToolsetHit'];
export type ToolsetPage = components['schemas']['ToolsetPage'];
export type ToolsetProblem = components['schemas']['ToolsetProblem'];
export type ToolsetSummary = components['schemas']['ToolsetSummary'];
export type ToolsetTool = components['schemas']['ToolsetTool'];
export type ToolsetView = components['schemas']['ToolsetView'];
export type ToolSource = components['schemas']['ToolSource'];
export type ToolSummary = components['schemas']['ToolSummary'];
export type ToolUsageView = components['schemas']['ToolUsageView'];
export type UpstreamModeInput = components['schemas']['UpstreamModeInput'];
export type VisibleView = components['schemas']['VisibleView'];
export type WaitingForApproval = components['schemas']['WaitingForApproval'];
export type WordContribution = components['schemas']['WordContribution'];
export type $defs = Record<string, never>;
export type operations = Record<string, never>;
