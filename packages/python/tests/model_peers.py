"""A server that speaks the wire formats of model providers, and responds with the turns of a script."""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NATIVE = ("openai-chat", "openai-responses", "anthropic", "gemini")
DIALECTS = (*NATIVE, "json-prompt")
SIGNATURE = "c2lnbmF0dXJl"


@dataclass
class Turn:
    """A response: text, calls as (name, arguments); arguments that are text are sent as they are.

    `change` changes the body of a response, as of servers that leave out or add something. `content` is sent in
    place of a body.
    """

    text: str = ""
    calls: tuple = ()
    finish: str | None = None
    refusal: str | None = None
    change: Callable[[dict], None] = lambda _body: None
    status: int = 200
    headers: dict = field(default_factory=dict)
    content: str | None = None


@dataclass
class ModelServer:
    """Responds with `turns`, the last of which repeats; `requests` are the bodies that came, `heads` their paths
    and headers.

    A turn may be a function of the request's body.
    """

    turns: list
    requests: list = field(default_factory=list)
    heads: list = field(default_factory=list)
    held: threading.Event | None = None

    def __enter__(self):
        script = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                script.requests.append(body)
                script.heads.append((self.path, dict(self.headers)))
                if script.held is not None:
                    script.held.wait()
                turn = script.turns[min(len(script.requests), len(script.turns)) - 1]
                if callable(turn):
                    turn = turn(body)
                path = self.path.partition("?")[0]
                number = len(script.requests)
                streamed = body.get("stream") or path.endswith(":streamGenerateContent")
                if path.endswith("/chat/completions"):
                    answer = _changed(_chat(turn, number), turn)
                    events = _chat_chunks(answer)
                elif path.endswith("/responses"):
                    answer = _changed(_responses(turn, number), turn)
                    events = _response_events(answer, turn)
                elif path.endswith("/messages"):
                    answer = _changed(_anthropic(turn, number), turn)
                    events = _anthropic_events(answer)
                else:
                    answer = _changed(_gemini(turn), turn)
                    events = _gemini_chunks(answer)
                content = "".join(events) if streamed else json.dumps(answer)
                content = content if turn.content is None else turn.content
                try:
                    self.send_response(turn.status)
                    for name, value in turn.headers.items():
                        self.send_header(name, value)
                    self.send_header("Content-Type", "text/event-stream" if streamed else "application/json")
                    self.send_header("Content-Length", str(len(content.encode())))
                    self.end_headers()
                    self.wfile.write(content.encode())
                except (BrokenPipeError, ConnectionResetError):
                    pass

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        return self

    def __exit__(self, *_):
        if self.held is not None:
            self.held.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def model(self, dialect):
        """Return the model of a dialect that this server is."""
        # Tests in an environment without the library use this server, too.
        from utcp_gateway_client.loop import Anthropic, Gemini, JsonPrompt, OpenAIChat, OpenAIResponses

        if dialect == "json-prompt":
            return JsonPrompt(self.model("openai-chat"))
        kind = {
            "openai-chat": OpenAIChat, "openai-responses": OpenAIResponses, "anthropic": Anthropic, "gemini": Gemini,
        }[dialect]  # fmt: skip
        retries = {} if dialect == "gemini" else {"client_options": {"max_retries": 0}}
        return kind("m", base_url=self.url, api_key="secret-key", **retries)


def script(dialect, *turns):
    """Return turns as a model of the dialect writes them: without tool calling, each call is a text of its own."""
    if dialect != "json-prompt":
        return list(turns)
    written = []
    for turn in turns:
        for name, arguments in turn.calls:
            call = (
                arguments
                if isinstance(arguments, str)
                else json.dumps({"tool_name": name, "arguments": arguments})
            )
            written.append(Turn(f"{turn.text or 'I call it.'}\n```json\n{call}\n```", finish=turn.finish))
        if not turn.calls:
            written.append(turn)
    return written


def _changed(answer, turn):
    turn.change(answer)
    return answer


def _text(arguments):
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def _ids(turn, number):
    return [f"call_{number}_{index}" for index in range(len(turn.calls))]


def _chat(turn, number):
    message = {"role": "assistant", "content": turn.text or None, "refusal": turn.refusal}
    if turn.calls:
        message["tool_calls"] = [
            {"id": one, "type": "function", "function": {"name": name, "arguments": _text(arguments)}}
            for one, (name, arguments) in zip(_ids(turn, number), turn.calls, strict=True)
        ]
    finish = turn.finish or ("tool_calls" if turn.calls else "stop")
    return {
        "id": "x", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "finish_reason": finish, "message": message, "logprobs": None}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }  # fmt: skip


def _event(data, name=None):
    return (f"event: {name}\n" if name else "") + f"data: {json.dumps(data)}\n\n"


def _chat_chunks(answer):
    choice = answer["choices"][0]
    base = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}

    def chunk(delta, finish=None):
        return _event(base | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    yield chunk({"role": "assistant", "content": ""})
    for piece in _pieces(choice["message"]["content"] or ""):
        yield chunk({"content": piece})
    if function := choice["message"].get("function_call"):
        yield chunk({"function_call": function | {"arguments": ""}})
        yield chunk({"function_call": {"arguments": function["arguments"]}})
    for index, call in enumerate(choice["message"].get("tool_calls", ())):
        kind, member = ("custom", "input") if "custom" in call else ("function", "arguments")
        yield chunk({"tool_calls": [call | {"index": index, kind: call[kind] | {member: ""}}]})
        written = call[kind][member]
        for piece in _pieces(written) if isinstance(written, str) else [json.dumps(written)]:
            yield chunk({"tool_calls": [{"index": index, kind: {member: piece}}]})
    yield chunk({}, choice["finish_reason"])
    if "usage" in answer:
        yield _event(base | {"choices": [], "usage": answer["usage"]})
    yield "data: [DONE]\n\n"


def _pieces(text):
    return [text[start : start + 5] for start in range(0, len(text), 5)]


def _responses(turn, number):
    output = [{"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": SIGNATURE}]
    if turn.text or turn.refusal:
        part = (
            {"type": "refusal", "refusal": turn.refusal}
            if turn.refusal
            else {"type": "output_text", "text": turn.text, "annotations": []}
        )
        output.append({
            "type": "message", "id": f"m_{number}", "role": "assistant", "status": "completed", "content": [part],
        })  # fmt: skip
    output += [
        {"type": "function_call", "id": f"fc_{one}", "call_id": one, "name": name, "arguments": _text(arguments),
         "status": "completed"}
        for one, (name, arguments) in zip(_ids(turn, number), turn.calls, strict=True)
    ]  # fmt: skip
    return {
        "id": "resp_1", "object": "response", "created_at": 1, "model": "m", "output": output,
        "status": "incomplete" if turn.finish else "completed",
        "incomplete_details": {"reason": turn.finish} if turn.finish else None,
        "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "error": None,
        "instructions": None, "metadata": {}, "temperature": 1, "top_p": 1,
        "usage": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15,
                  "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}},
    }  # fmt: skip


def _response_events(answer, turn):
    for number, piece in enumerate(_pieces(turn.text)):
        data = {"type": "response.output_text.delta", "delta": piece, "item_id": "m", "output_index": 0,
                "content_index": 0, "sequence_number": number, "logprobs": []}  # fmt: skip
        yield _event(data, data["type"])
    data = {"type": f"response.{answer['status']}", "response": answer, "sequence_number": 100}
    yield _event(data, data["type"])


def _anthropic(turn, number):
    content = [{"type": "text", "text": turn.text}] if turn.text else []
    content += [
        {"type": "tool_use", "id": one, "name": name, "input": arguments}
        for one, (name, arguments) in zip(_ids(turn, number), turn.calls, strict=True)
    ]
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": content,
        "stop_reason": turn.finish or ("tool_use" if turn.calls else "end_turn"), "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5},
    }  # fmt: skip


def _anthropic_events(answer):
    def event(kind, **members):
        return _event({"type": kind, **members}, kind)

    yield event("message_start", message=answer | {"content": [], "stop_reason": None})
    for index, block in enumerate(answer["content"]):
        if block["type"] == "text":
            yield event("content_block_start", index=index, content_block={"type": "text", "text": ""})
            deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"])]
        else:
            yield event("content_block_start", index=index, content_block=block | {"input": {}})
            pieces = _pieces(json.dumps(block["input"]))
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
        for delta in deltas:
            yield event("content_block_delta", index=index, delta=delta)
        yield event("content_block_stop", index=index)
    end = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
    yield event("message_delta", delta=end, usage={"output_tokens": 5})
    yield event("message_stop")


def _gemini(turn):
    parts = [{"text": turn.text}] if turn.text else []
    parts += [{"functionCall": {"name": name, "args": arguments}} for name, arguments in turn.calls]
    if turn.calls:
        parts[-1]["thoughtSignature"] = SIGNATURE
    return {
        "candidates": [
            {"index": 0, "finishReason": turn.finish or "STOP", "content": {"role": "model", "parts": parts}}
        ],
        "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15},
    }


def _gemini_chunks(answer):
    for part in answer["candidates"][0]["content"]["parts"]:
        for piece in [{"text": text} for text in _pieces(part["text"])] if "text" in part else [part]:
            yield _event({"candidates": [{"index": 0, "content": {"role": "model", "parts": [piece]}}]})
    last = {"index": 0, "finishReason": answer["candidates"][0]["finishReason"]}
    yield _event({"candidates": [last], "usageMetadata": answer["usageMetadata"]})


def results(dialect, body):
    """Return (id or name, text, is_error) of each result in a request, in their order."""
    if dialect == "openai-chat":
        found = [one for one in body["messages"] if one["role"] == "tool"]
        return [
            (
                one["tool_call_id"],
                one["content"].removeprefix("Error: "),
                one["content"].startswith("Error: "),
            )
            for one in found
        ]
    if dialect == "openai-responses":
        found = [one for one in body["input"] if one.get("type") == "function_call_output"]
        return [
            (one["call_id"], one["output"].removeprefix("Error: "), one["output"].startswith("Error: "))
            for one in found
        ]
    if dialect == "anthropic":
        users = [one["content"] for one in body["messages"] if one["role"] == "user"]
        blocks = [block for content in users if isinstance(content, list) for block in content]
        return [
            (one["tool_use_id"], one["content"], one.get("is_error", False))
            for one in blocks if one["type"] == "tool_result"
        ]  # fmt: skip
    if dialect == "gemini":
        parts = [
            part["functionResponse"]
            for one in body["contents"]
            for part in one["parts"]
            if "functionResponse" in part
        ]
        return [
            (
                one["name"],
                one["response"].get("error", one["response"].get("output")),
                "error" in one["response"],
            )
            for one in parts
        ]
    found = [one["content"] for one in body["messages"] if one["role"] == "user"][1:]
    return [(None, one.partition(":\n")[2], one.partition(":\n")[0].endswith(" failed")) for one in found]
