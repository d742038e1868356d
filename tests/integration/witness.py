"""Witnesses for tests: one that follows C2SP tlog-witness and tlog-cosignature to the letter, and litewitness."""

import base64
import hashlib
import http.server
import os
import pathlib
import shutil
import subprocess
import threading
import time

import harness
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

TOOLS = harness.TOP / "build" / "clients" / "litewitness"
NAME = "witness.example/w1"
AUTHOR, COSIGNER = b"\1", b"\4"


def sha(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def public(key):
    return key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)


def key_id(name, kind, raw):
    return sha(name.encode(), b"\n", kind, raw)[:4]


def verifier_key(name, kind, raw):
    return f"{name}+{key_id(name, kind, raw).hex()}+{base64.b64encode(kind + raw).decode()}"


def is_consistent(old_size, size, old_root, proof, root):
    """RFC 9162, 2.1.4.2."""
    if old_size == size:
        return not proof and old_root == root
    proof = list(proof)
    if old_size & (old_size - 1) == 0:
        proof.insert(0, old_root)
    if not proof:
        return False
    at, last = old_size - 1, size - 1
    while at & 1:
        at, last = at >> 1, last >> 1
    old_hash = new_hash = proof[0]
    for one in proof[1:]:
        if last == 0:
            return False
        if at & 1 or at == last:
            old_hash, new_hash = sha(b"\1", one, old_hash), sha(b"\1", one, new_hash)
            while at and not at & 1:
                at, last = at >> 1, last >> 1
        else:
            new_hash = sha(b"\1", new_hash, one)
        at, last = at >> 1, last >> 1
    return last == 0 and old_hash == old_root and new_hash == root


class Witness:
    """`say`: what it answers instead, (status, text); `sizes`: of each checkpoint that it has signed, by origin."""

    def __init__(self):
        self.key, self.logs, self.say, self.sizes, self.asked = Ed25519PrivateKey.generate(), {}, None, {}, []
        self.vkey = verifier_key(NAME, COSIGNER, public(self.key))
        witness = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"])).decode()
                status, text = witness.answer(self.path, body)
                self.send_response(status)
                if status == 409:
                    self.send_header("content-type", "text/x.tlog.size")
                self.send_header("content-length", str(len(text.encode())))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/writ"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def add_log(self, origin, raw):
        self.logs[origin] = {"key": raw, "size": 0, "root": None}

    def cosign(self, text, key=None):
        now = int(time.time())
        signature = (key or self.key).sign(f"cosignature/v1\ntime {now}\n{text}".encode())
        raw = key_id(NAME, COSIGNER, public(self.key)) + now.to_bytes(8, "big") + signature
        return f"— {NAME} {base64.b64encode(raw).decode()}\n"

    def answer(self, path, body):
        if path != "/writ/add-checkpoint":
            return 404, "no such path\n"
        head, _, note = body.partition("\n\n")
        self.asked.append(head)
        first, *proof = head.split("\n")
        text, _, signatures = note.rpartition("\n\n")
        text += "\n"
        origin, size, root = text.splitlines()
        if self.say is not None:
            return self.say(text)
        log = self.logs.get(origin)
        if log is None:
            return 404, "unknown log\n"
        if not any(self.is_signed(line, origin, log["key"], text) for line in signatures.splitlines()):
            return 403, "no known signature\n"
        assert first.startswith("old ") and str(int(first[4:])) == first[4:] and len(proof) <= 63
        old, size, root = int(first[4:]), int(size), base64.b64decode(root)
        if old > size:
            return 400, "the old size is larger\n"
        if old != log["size"]:
            return 409, f"{log['size']}\n"
        if old == size and root != log["root"]:
            return 409, f"{log['size']}\n"
        if not (not proof if old == 0 else is_consistent(old, size, log["root"], [base64.b64decode(one) for one in proof], root)):
            return 422, "the proof is wrong\n"
        log.update(size=size, root=root)
        self.sizes.setdefault(origin, []).append(size)
        return 200, self.cosign(text)

    @staticmethod
    def is_signed(line, origin, key, text):
        dash, name, digits = line.split(" ")
        raw = base64.b64decode(digits)
        if (dash, name) != ("—", origin) or raw[:4] != key_id(origin, AUTHOR, key):
            return False
        try:
            Ed25519PublicKey.from_public_bytes(key).verify(raw[4:], text.encode())
        except InvalidSignature:
            return False
        return True

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class LiteWitness:
    """litewitness of filippo.io/torchwood, with its key in an ssh-agent."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir()
        key = Ed25519PrivateKey.generate()
        self.vkey = verifier_key(NAME, COSIGNER, public(key))
        path, socket = self.folder / "key", self.folder / "agent"
        path.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()))
        path.chmod(0o600)
        self.log = (self.folder / "log").open("wb")
        self.agent = subprocess.Popen(["ssh-agent", "-D", "-a", socket], stdout=self.log, stderr=self.log)
        add = ["ssh-add", path]
        harness.eventually(lambda: subprocess.run(add, env={**os.environ, "SSH_AUTH_SOCK": str(socket)}, stdout=self.log, stderr=self.log, check=False).returncode == 0,
                           "the agent listens, and has the key")
        port = harness.free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.database = self.folder / "witness.db"
        words = [TOOLS / "litewitness", "-listen", f"127.0.0.1:{port}", "-ssh-agent", socket, "-name", NAME, "-db", self.database,
                 "-key", hashlib.sha256(public(key)).hexdigest()]
        self.process = subprocess.Popen(words, stdout=self.log, stderr=self.log)
        harness.eventually(lambda: b"listening" in (self.folder / "log").read_bytes(), "the witness listens")

    @staticmethod
    def missing():
        if not (TOOLS / "litewitness").exists():
            return "no litewitness in build/clients: ops/setup long installs it, where there is Go"
        return "" if shutil.which("ssh-agent") else "there is no ssh-agent"

    def add_log(self, origin, raw):
        for words in (["add-log"], ["add-key", "-key", verifier_key(origin, AUTHOR, raw)]):
            subprocess.run([TOOLS / "witnessctl", words[0], "-db", self.database, "-origin", origin, *words[1:]], stdout=self.log, stderr=self.log, check=True)

    def close(self):
        for process in (self.process, self.agent):
            process.kill()
            process.wait()
        self.log.close()
