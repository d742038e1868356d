"""A name server over which a test rules, and programs that ask it alone."""

import contextlib
import os
import socket
import subprocess
import threading

import pytest


class Names:
    """For it every name is 127.0.0.1, so many seconds later; none is, while it is dark: it takes questions and says nothing."""

    def __init__(self, address, delay=0):
        self.address, self.delay, self.is_dark = address, delay, False
        self.server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.server.bind((address, 53))
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                question, client = self.server.recvfrom(512)
                if not question:  # close() asks it
                    return
                if not self.is_dark:
                    threading.Timer(self.delay, self.reply, (question, client)).start()

    def reply(self, question, client):
        with contextlib.suppress(OSError):
            self.server.sendto(self.answer(question), client)

    def close(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"", (self.address, 53))
        self.thread.join()  # who still waits for a question would keep the port
        self.server.close()

    @staticmethod
    def answer(question):
        body = question[12:question.index(b"\0", 12) + 5]
        is_ipv4 = body[-4:-2] == b"\0\x01"
        record = b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\x7f\0\0\x01" if is_ipv4 else b""
        return question[:2] + b"\x81\x80\0\x01\0" + bytes([is_ipv4]) + b"\0\0\0\0" + body + record


def asking(names, tmp_path, timeout=30):
    """Words before a command that make this its only name server, which it gives up later than anybody here waits."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("SKIP: a resolv.conf of one's own needs root, and a machine that allows mounts")
    configuration = tmp_path / "resolv.conf"
    configuration.write_text(f"nameserver {names.address}\noptions timeout:{timeout} attempts:5\n")
    return ["unshare", "-m", "sh", "-c", f'mount --bind {configuration} /etc/resolv.conf && exec "$@"', "sh"]
