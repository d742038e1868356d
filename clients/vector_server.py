#!/usr/bin/env python3
"""Plays the cases of schemas/client-vectors.json: the scripted server that the tests of both client libraries start.

    clients/vector_server.py        prints {"url": "http://127.0.0.1:PORT"} and serves until its standard input ends

    POST   /plays {"case": NAME}    begins a case: {"play": 1, "url": ..., "ca_file": ...}; the client under test talks to `url`
    GET    /plays/1/held            answers once an exchange with `hold` has its request
    POST   /plays/1/go              lets that exchange continue
    DELETE /plays/1                 ends the case: {"problems": [...]}; the case passes only if there are none

Each play has a port of its own, so cases can run side by side. schemas/client-vectors.md describes the format.
"""

import asyncio
import contextlib
import json
import pathlib
import re
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import time

VECTORS = pathlib.Path(__file__).resolve().parents[1] / "schemas" / "client-vectors.json"
BODY_MAX = 1 << 20
SLOW_SECONDS = 0.1
REASONS = {200: "OK", 201: "Created", 204: "No Content"}


# ---- certificates ----


def certificate(folder, name, issuer, *, subject, days=("20200101000000Z", "20990101000000Z"), names=None):
    """Makes folder/name.pem (certificate and key), issued by `issuer`, or by itself."""
    key, request, out, ext = (folder / f"{name}.{suffix}" for suffix in ("key", "csr", "crt", "ext"))
    kind = f"subjectAltName={names}\nauthorityKeyIdentifier=keyid\n" if names else "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign\n"
    ext.write_text("subjectKeyIdentifier=hash\n" + kind)
    config, database = folder / "ca.cnf", folder / f"{name}.index"
    database.touch()
    config.write_text(f"[ca]\ndefault_ca=x\n[x]\ndatabase={database}\nnew_certs_dir={folder}\nrand_serial=yes\ndefault_md=sha256\npolicy=p\n[p]\ncommonName=supplied\n")

    def openssl(*arguments):
        subprocess.run(["openssl", *map(str, arguments)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-subj", f"/CN={subject}", "-out", request)
    signer = ["-selfsign", "-keyfile", key] if issuer is None else ["-cert", folder / f"{issuer}.crt", "-keyfile", folder / f"{issuer}.key"]
    openssl("ca", "-batch", "-notext", "-config", config, *signer, "-in", request, "-out", out, "-extfile", ext, "-startdate", days[0], "-enddate", days[1])
    (folder / f"{name}.pem").write_text(out.read_text() + key.read_text())


class Certificates:
    """Made when the first case needs one."""

    def __init__(self):
        self.folder = None

    def make(self):
        if self.folder is None:
            folder = pathlib.Path(tempfile.mkdtemp(prefix="writ-vectors-"))
            here = "IP:127.0.0.1,DNS:localhost"
            certificate(folder, "ca", None, subject="vectors")
            certificate(folder, "other-ca", None, subject="others")
            certificate(folder, "good", "ca", subject="good", names=here)
            certificate(folder, "wrong_name", "ca", subject="elsewhere", names="DNS:elsewhere.example")
            certificate(folder, "expired", "ca", subject="expired", names=here, days=("20200101000000Z", "20200201000000Z"))
            certificate(folder, "unknown_authority", "other-ca", subject="good", names=here)
            self.folder = folder
        return self.folder

    def remove(self):
        if self.folder:
            shutil.rmtree(self.folder)


# ---- answers ----


def fill(value):
    """$now+SECONDS in a template."""
    if isinstance(value, str) and value.startswith("$now+"):
        return int(time.time()) + int(value[5:])
    return value


def body_of(answer, templates):
    """The bytes of the answer's body."""
    if "text" in answer:
        return answer["text"].encode()
    if "template" not in answer:
        return b""
    members = {**templates[answer["template"]], **answer.get("set", {})}
    members = {key: fill(value) for key, value in members.items() if key not in answer.get("drop", [])}
    text = json.dumps(members)
    if "after_brace" in answer:
        text = "{" + answer["after_brace"] + text[1:]
    if "nest" in answer:
        text = text[:-1] + ', "later": ' + "[" * answer["nest"] + "]" * answer["nest"] + "}"
    if "pad_bytes" in answer:
        text = text[:-1] + ', "later": "' + "x" * answer["pad_bytes"] + '"}'
    body = (answer.get("before", "") + text + answer.get("after", "")).encode()
    if "bytes_before_end" in answer:
        body = body[:-1] + b', "later": "' + bytes.fromhex(answer["bytes_before_end"]) + b'"}'
    return body[: answer.get("keep_bytes", len(body))]


def head_of(answer, body, request_id, chunked):
    status = answer.get("status", 200)
    headers = {"Content-Type": "application/json", "X-Request-ID": request_id, **answer.get("headers", {})}
    if chunked:
        headers["Transfer-Encoding"] = "chunked"
    elif status != 204:
        headers["Content-Length"] = str(len(body))
    lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Other')}", *(f"{key}: {value}" for key, value in headers.items() if value is not None)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


# ---- one case that is played ----


class Play:
    def __init__(self, vectors, case, certificates):
        self.vectors, self.case, self.certificates = vectors, case, certificates
        self.client = {**vectors["client"], **case.get("client", {})}
        self.left = list(case["exchanges"])
        self.problems, self.keys, self.last, self.asked = [], [], {}, None
        self.held, self.go = asyncio.Event(), asyncio.Event()
        self.server, self.sockets, self.writers, self.tasks = None, [], set(), set()

    # -- the port --

    def bind(self, port=0):
        one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind(("127.0.0.1", port))
        return one

    async def begin(self):
        one, kind, tls = self.bind(), self.case.get("port", "open"), self.case.get("tls")
        self.port = one.getsockname()[1]
        self.context = None
        if tls and tls != "plain":
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(self.certificates.make() / f"{tls}.pem")
        if kind == "open":
            await self.listen(one)
        elif kind == "late":
            self.later(self.listen(one), 0.3)
        else:
            self.sockets.append(one)
        if kind == "full":
            one.listen(0)
            for _ in range(4):  # the backlog is full then, and the next connection is never made
                other = socket.socket()
                other.setblocking(False)
                other.connect_ex(("127.0.0.1", self.port))
                self.sockets.append(other)
        found = {"url": f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"}
        if tls:
            found["ca_file"] = str(self.certificates.make() / "ca.crt")
        return found

    async def listen(self, one):
        self.server = await asyncio.start_server(self.serve, sock=one, ssl=self.context, limit=BODY_MAX)

    def later(self, what, seconds):
        async def wait():
            await asyncio.sleep(seconds)
            await what

        task = asyncio.ensure_future(wait())
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def down(self, milliseconds):
        self.server.close()
        for writer in list(self.writers):
            writer.transport.abort()

        async def up():
            await self.listen(self.bind(self.port))

        self.later(up(), milliseconds / 1000)

    async def end(self):
        if self.server:
            self.server.close()
        for task in list(self.tasks):
            task.cancel()
        for writer in list(self.writers):
            writer.transport.abort()
        for one in self.sockets:
            one.close()
        if self.left:
            self.problems.append(f"{len(self.left)} exchanges were not asked for: the next is {json.dumps(self.left[0]['expect'])}")
        return self.problems

    # -- requests --

    async def serve(self, reader, writer):
        self.writers.add(writer)
        try:
            while await self.exchange(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError, asyncio.LimitOverrunError, asyncio.CancelledError):
            pass
        finally:
            self.writers.discard(writer)
            writer.close()

    async def exchange(self, reader, writer):
        """One request and its answer; false at the end of the connection."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = head[0].split(" ", 2)
        headers = {}
        for line in head[1:-2]:
            key, value = line.split(":", 1)
            if key.lower() in headers:
                self.problems.append(f"the header {key} is sent twice")
            headers[key.lower()] = value.strip()
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        if not self.left:
            self.problems.append(f"{method} {target} is asked, and the case has no exchange left")
            writer.write(b"HTTP/1.1 500 Unexpected\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
            return True
        step = self.left.pop(0)
        self.check(step["expect"], method, target.split("?")[0], headers, body)
        answer = step["answer"]
        if answer.get("hold"):
            self.held.set()
            await self.go.wait()
        await self.reply(writer, reader, answer, headers.get("x-request-id", ""))
        if "down_ms" in answer:
            await self.down(answer["down_ms"])
        return answer.get("wire", "whole") in ("whole", "chunked") and "down_ms" not in answer

    def check(self, expect, method, path, headers, body):
        wrong = self.problems.append
        route, review = expect["route"], expect.get("review", self.vectors["review"])
        want = {"authorize": ("POST", "/v1/agent/authorize"), "mint": ("POST", "/v1/tokens/mint"),
                "wait": ("GET", f"/v1/queue/{review}/wait"), "redeem": ("POST", f"/v1/queue/{review}/redeem")}[route]
        if (method, path) != want:
            wrong(f"{method} {path} is asked, expected {want[0]} {want[1]}")
            return
        bearer = expect.get("bearer") or ("vector-token" if "token" in self.client and route in ("wait", "redeem") else self.client["key"])
        if headers.get("authorization") != f"Bearer {bearer}":
            wrong(f"{route}: Authorization is {headers.get('authorization')!r}, expected Bearer {bearer}")
        agent = headers.get("user-agent", "")
        if not re.search(expect.get("user_agent", "^writ-client-"), agent) or ("user_agent_not" in expect and re.search(expect["user_agent_not"], agent)):
            wrong(f"{route}: User-Agent is {agent!r}")
        if method == "POST":
            self.check_post(expect, route, headers, body)

    def check_post(self, expect, route, headers, body):
        wrong = self.problems.append
        key, rule = headers.get("idempotency-key", ""), expect.get("key", "new")
        if not re.fullmatch(r"[ -~]{1,255}", key):
            wrong(f"{route}: Idempotency-Key is {key!r}")
        if rule == "new" and key in self.keys:
            wrong(f"{route}: Idempotency-Key {key!r} was used before, by another call")
        if rule == "same" and (route, key) != (self.last.get("route"), self.last.get("key")):
            wrong(f"{route}: Idempotency-Key is {key!r}, expected that of the attempt before, {self.last.get('key')!r}")
        if rule == "same" and body != self.last.get("body"):
            wrong(f"{route}: the retry has another body")
        self.keys.append(key)
        self.last = {"route": route, "key": key, "body": body}
        if not re.fullmatch(r"[!-~]{1,128}", headers.get("x-request-id", "")):
            wrong(f"{route}: X-Request-ID is {headers.get('x-request-id')!r}")
        if headers.get("content-type", "").split(";")[0] != "application/json":
            wrong(f"{route}: Content-Type is {headers.get('content-type')!r}")
        try:
            members = json.loads(body)
        except ValueError:
            wrong(f"{route}: the body is not JSON")
            return
        if "body" in expect and members != expect["body"]:
            wrong(f"{route}: the body is {json.dumps(members)}, expected {json.dumps(expect['body'])}")
        if route == "authorize":
            self.asked = members
            if not isinstance(members.get("action"), str) or not isinstance(members.get("args"), dict):
                wrong(f"{route}: the body has no action or no args: {json.dumps(members)}")
        if route == "redeem" and self.asked is not None and "body" not in expect and members != self.asked:
            wrong(f"{route}: the body is {json.dumps(members)}, and {json.dumps(self.asked)} was asked")

    # -- faults --

    async def reply(self, writer, reader, answer, request_id):
        wire = answer.get("wire", "whole")
        body = body_of(answer, self.vectors["templates"])
        head = head_of(answer, body, request_id, wire in ("chunked", "cut_chunked"))
        if wire == "no_answer":
            await reader.read(1)  # until the client goes
        elif wire == "reset":
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        elif wire in ("slow_head", "slow_body"):
            text = head + body
            at = 0 if wire == "slow_head" else len(head)
            writer.write(text[:at])
            for byte in text[at:]:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(SLOW_SECONDS)
        elif wire in ("chunked", "cut_chunked"):
            end = b"0\r\n\r\n" if wire == "chunked" else b""
            writer.write(head + f"{len(body):x}\r\n".encode() + body + b"\r\n" + end)
            await writer.drain()
        elif wire != "close":
            text = {"whole": head + body, "raw": body, "cut_head": head[: len(head) // 2], "cut_body": head + body[: len(body) // 2]}[wire]
            writer.write(text)
            await writer.drain()


# ---- the tests' own door ----


class Control:
    def __init__(self, vectors):
        self.vectors = vectors
        self.cases = {case["name"]: case for case in vectors["cases"]}
        self.plays, self.certificates, self.count = {}, Certificates(), 0

    async def answer(self, method, path, body):
        """(status, members)"""
        if (method, path) == ("POST", "/plays"):
            case = self.cases.get(json.loads(body)["case"])
            if case is None:
                return 404, {"error": "no case has this name"}
            self.count += 1
            play = self.plays[self.count] = Play(self.vectors, case, self.certificates)
            return 200, {"play": self.count, **await play.begin()}
        match = re.fullmatch(r"/plays/(\d+)(/held|/go|)", path)
        play = self.plays.get(int(match[1])) if match else None
        if play is None:
            return 404, {"error": "no play has this number"}
        if (method, match[2]) == ("GET", "/held"):
            await play.held.wait()
        elif (method, match[2]) == ("POST", "/go"):
            play.go.set()
        elif (method, match[2]) == ("DELETE", ""):
            del self.plays[int(match[1])]
            return 200, {"problems": await play.end()}
        else:
            return 405, {"error": "this path does not have this method"}
        return 200, {}

    async def serve(self, reader, writer):
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                method, path, _ = head.split(" ", 2)
                length = re.search(r"^content-length: *(\d+)", head, re.I | re.M)
                body = await reader.readexactly(int(length[1]) if length else 0)
                status, members = await self.answer(method, path, body)
                text = json.dumps(members).encode()
                writer.write(f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text)
                await writer.drain()
        writer.close()


async def main():
    control = Control(json.loads(VECTORS.read_text()))
    server = await asyncio.start_server(control.serve, "127.0.0.1", 0)
    print(json.dumps({"url": "http://127.0.0.1:%d" % server.sockets[0].getsockname()[1]}), flush=True)
    try:
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    finally:
        control.certificates.remove()


if __name__ == "__main__":
    asyncio.run(main())
