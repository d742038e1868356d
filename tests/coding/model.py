"""A model on this machine for real coding agents: it makes the calls that it was given, one turn after the other, then says "done".

It speaks what the four agents speak: Anthropic's Messages, OpenAI's Responses and Chat Completions, Gemini's generateContent, as a
whole or as a stream. It has no state: the turn is found from the number of results in a request. A request that does not offer
the tool of its turn (agents also ask for titles and summaries) gets "done".
"""

import http.server
import json
import threading

USAGE = {"input_tokens": 1, "output_tokens": 1}


def results(request):
    """What the request says about calls that were made, in order."""
    found = []
    for message in request.get("messages", []):
        content = message.get("content")
        if message.get("role") == "tool":
            found.append(content)
        elif isinstance(content, list):
            found += [part.get("content") for part in content if part.get("type") == "tool_result"]
    for item in request.get("input", []) if isinstance(request.get("input"), list) else []:
        if str(item.get("type", "")).endswith("call_output"):
            found.append(item.get("output"))
    for content in request.get("contents", []):
        found += [part["functionResponse"].get("response") for part in content.get("parts", []) if "functionResponse" in part]
    return found


def offered(request):
    """{name of a tool: its type}"""
    found = {}
    for tool in request.get("tools") or []:
        for function in tool.get("functionDeclarations", []):
            found[function["name"]] = "function"
        name = tool.get("name") or (tool.get("function") or {}).get("name")
        if name:
            found[name] = tool.get("type", "function")
    return found


class Model:
    """Serves on a port of loopback. `turns` is a list of lists of (tool, arguments)."""

    def __init__(self, turns):
        self.turns, self.told, self.last, self.lock = turns, [], "", threading.Lock()
        model = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                self.answer(b'{"object":"list","data":[{"id":"mock","object":"model"}]}')

            def do_POST(self):
                text = self.body()
                request = json.loads(text) if text.startswith(b"{") else {}
                path = self.path.partition("?")[0]
                for end, dialect in (("/messages", model.anthropic), ("/responses", model.responses), ("/chat/completions", model.chat),
                                     ("enerateContent", model.gemini)):
                    if path.endswith(end):
                        whole, events = dialect(request, model.calls(request))
                        return self.reply(whole, events, bool(request.get("stream")) or "stream" in path, dialect != model.gemini)
                return self.answer(b'{"input_tokens":1,"totalTokens":1}')

            def body(self):
                if self.headers.get("transfer-encoding") != "chunked":
                    return self.rfile.read(int(self.headers.get("content-length") or 0))
                text = b""
                while size := int(self.rfile.readline(), 16):
                    text += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                return text

            def reply(self, whole, events, stream, named):
                if not stream:
                    return self.answer(json.dumps(whole).encode())
                lines = [(f"event: {event['type']}\n" if named and "type" in event else "") + f"data: {json.dumps(event)}\n\n" for event in events]
                end = "data: [DONE]\n\n" if self.path.endswith("/chat/completions") else ""
                return self.answer(("".join(lines) + end).encode(), "text/event-stream")

            def answer(self, text, kind="application/json"):
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def calls(self, request):
        """[(id, tool, arguments, type of the tool)] of the turn that comes next."""
        told = results(request)
        with self.lock:
            if len(told) > len(self.told):
                self.told, self.last = told, json.dumps(request)
        done = 0
        for number, turn in enumerate(self.turns):
            if done == len(told):
                tools = offered(request)
                return [(f"call_{number}_{i}", tool, arguments, tools[tool]) for i, (tool, arguments) in enumerate(turn) if tool in tools]
            done += len(turn)
        return []

    # ---- the dialects: (the whole answer, the events of a stream) ----

    @staticmethod
    def anthropic(request, calls):
        blocks = [{"type": "tool_use", "id": id, "name": tool, "input": arguments} for id, tool, arguments, _ in calls] or [{"type": "text", "text": "done"}]
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": request.get("model"), "content": blocks,
                   "stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None, "usage": USAGE}
        events = [{"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}]
        for index, block in enumerate(blocks):
            is_text = block["type"] == "text"
            empty = {**block, "text": ""} if is_text else {**block, "input": {}}
            delta = {"type": "text_delta", "text": block["text"]} if is_text else {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            events += [{"type": "content_block_start", "index": index, "content_block": empty},
                       {"type": "content_block_delta", "index": index, "delta": delta}, {"type": "content_block_stop", "index": index}]
        events.append({"type": "message_delta", "delta": {"stop_reason": message["stop_reason"], "stop_sequence": None}, "usage": {"output_tokens": 1}})
        return message, [*events, {"type": "message_stop"}]

    @staticmethod
    def responses(request, calls):
        items = []
        for id, tool, arguments, kind in calls:
            base = {"id": "item_" + id, "call_id": id, "name": tool, "status": "completed"}
            items.append({**base, "type": "custom_tool_call", "input": arguments} if kind == "custom" else
                         {**base, "type": "function_call", "arguments": json.dumps(arguments)})
        items = items or [{"id": "item_1", "type": "message", "role": "assistant", "status": "completed",
                           "content": [{"type": "output_text", "text": "done", "annotations": []}]}]
        usage = {**USAGE, "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 2}
        whole = {"id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": request.get("model"), "output": items,
                 "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "usage": usage}
        events = [{"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}}]
        for index, item in enumerate(items):
            events += [{"type": f"response.output_item.{word}", "output_index": index, "item": item} for word in ("added", "done")]
        return whole, [*events, {"type": "response.completed", "response": whole}]

    @staticmethod
    def chat(request, calls):
        made = [{"index": index, "id": id, "type": "function", "function": {"name": tool, "arguments": json.dumps(arguments)}}
                for index, (id, tool, arguments, _) in enumerate(calls)]
        message = {"role": "assistant", "content": None if made else "done", **({"tool_calls": made} if made else {})}
        base = {"id": "chat_1", "created": 1, "model": request.get("model")}
        finish = "tool_calls" if made else "stop"
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        return ({**base, "object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": usage},
                [{**base, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
                 {**base, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {}, "finish_reason": finish}], "usage": usage}])

    @staticmethod
    def gemini(request, calls):
        parts = [{"functionCall": {"name": tool, "args": arguments}} for _, tool, arguments, _ in calls] or [{"text": "done"}]
        whole = {"candidates": [{"index": 0, "content": {"role": "model", "parts": parts}, "finishReason": "STOP"}],
                 "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}}
        return whole, [whole]
