#!/usr/bin/env python3
"""A model on this machine that makes the calls which its prompt lists: OpenAI's Responses and Chat Completions.

    mock_model.py       prints {"url": "http://127.0.0.1:PORT/v1"} and serves until its standard input ends

The prompt has a JSON array of calls, [["issue_refund", {"amount": 20}], ...]. The model makes them one by one, each after
the result of the one before, and then says "done". It has no state: the turn is the number of results in the request.
"""

import http.server
import json
import sys
import threading


def texts(value):
    """All texts in a message's content."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for item in value for text in texts(item)]
    return texts(value.get("text") or value.get("content")) if isinstance(value, dict) else []


def turn(messages):
    """(the calls of the prompt, how many have a result)"""
    calls, results = [], 0
    for message in messages:
        if message.get("role") == "tool" or message.get("type") == "function_call_output":
            results += 1
        elif message.get("role") == "user":
            for text in texts(message.get("content")):
                calls = json.loads(text) if text.startswith("[[") else calls
    return calls, results


def responses(request):
    asked = request["input"]
    calls, done = turn([{"role": "user", "content": asked}] if isinstance(asked, str) else asked)
    if done < len(calls):
        name, arguments = calls[done]
        item = {"type": "function_call", "id": f"fc_{done}", "call_id": f"call_{done}", "name": name, "arguments": json.dumps(arguments), "status": "completed"}
    else:
        item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": "done", "annotations": []}]}
    usage = {"input_tokens": 1, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 1, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 2}
    return {"id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": request["model"], "output": [item],
            "parallel_tool_calls": False, "tool_choice": "auto", "tools": [], "usage": usage}


def chat(request):
    calls, done = turn(request["messages"])
    message = {"role": "assistant", "content": "done"}
    if done < len(calls):
        name, arguments = calls[done]
        call = {"id": f"call_{done}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    return {"id": "chat_1", "object": "chat.completion", "created": 1, "model": request["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if done < len(calls) else "stop"}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = {"/v1/responses": responses, "/v1/chat/completions": chat}.get(self.path)
        text = json.dumps(answer(request) if answer else {}).encode()
        self.send_response(200 if answer else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(json.dumps({"url": f"http://127.0.0.1:{server.server_address[1]}/v1"}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
