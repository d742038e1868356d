"""The way between a program and a server, over which a test rules: it can cut an answer, and close at the worst moment."""

import ctypes
import select
import socket
import struct
import threading

from harness import free_port

SO_ATTACH_FILTER = 26
RETURN_NOTHING = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))  # one instruction of a packet filter
DROP_ALL = struct.pack("HP", 1, ctypes.addressof(RETURN_NOTHING))


class Way:
    """Carries bytes between clients of an address of its own and a server's, (host, port) or a socket's path.

    `spoil(sent, reply)` is asked with each piece of a reply, and with what its client sent last: it gives back what goes on
    to the client, and whether the connection ends then: None, or how. A broker tells clients where it is: its own port in
    such an answer becomes the way's."""

    CLOSE = staticmethod(lambda client: client.shutdown(socket.SHUT_RDWR))
    HALF_CLOSE = staticmethod(lambda client: client.shutdown(socket.SHUT_WR))

    def __init__(self, to, is_broker=False, port=None):
        self.to, self.port = to, port or free_port()
        self.spoil = lambda sent, reply: (reply, None)
        self.spoiled = 0
        self.lost = self.held = ()
        self.kept = b""  # what a connection had sent since hold(), last
        self.released = threading.Event()
        at = b"127.0.0.1"
        self.told = (at + struct.pack(">i", to[1]), at + struct.pack(">i", self.port)) if is_broker else None
        self.links = []  # pairs of a client's and a server's socket
        self.listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX if isinstance(self.to, str) else socket.AF_INET)
            link = Link(self, client, server)
            self.links.append(link)
            threading.Thread(target=link.begin, daemon=True).start()

    def forget(self):
        """What clients send on the connections there are is lost from here on, unacknowledged; new ones work."""
        for link in self.links:
            link.client.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, DROP_ALL)

    def lose(self, *names):
        """What clients send is lost from here on, if their first request has one of these names. Those that are not lost any more
        have to connect again."""
        self.lost = names
        for link in list(self.links):
            if link.has_lost and not link.is_lost():
                link.end()

    def hold(self, *names):
        """What clients send waits from here on, if their first request has one of these names, until release()."""
        self.released.clear()
        self.held = names

    def release(self):
        """What has waited arrives, late."""
        self.held = ()
        self.released.set()

    def close(self):
        self.release()
        self.listener.shutdown(socket.SHUT_RDWR)  # or who waits in accept() lets one more in
        self.listener.close()
        for link in self.links:
            link.end()


class Link:
    def __init__(self, way, client, server):
        self.way, self.client, self.server = way, client, server
        self.sent = self.first = b""
        self.has_lost = False

    def is_lost(self):
        return any(name in self.first for name in self.way.lost)

    def begin(self):
        try:
            self.server.connect(self.way.to)
        except OSError:
            self.end()
            return
        threading.Thread(target=self.carry, args=(self.server, self.client, True), daemon=True).start()
        self.carry(self.client, self.server, False)

    def carry(self, a, b, is_reply):
        try:
            while data := a.recv(1 << 16):
                ending = None
                if is_reply:
                    data = data.replace(*self.way.told) if self.way.told else data
                    data, ending = self.way.spoil(self.sent, data)
                else:
                    self.sent, self.first = data, self.first or data
                    if self.is_lost():
                        self.has_lost = True
                        continue
                    if any(name in self.first for name in self.way.held):
                        data = self.keep(a, data)
                b.sendall(data)
                if ending is not None:
                    self.way.spoiled += 1
                    ending(b)
        except OSError:
            pass
        self.end()

    def keep(self, a, data):
        """All that is sent until the release."""
        while not self.way.released.is_set():
            self.way.kept = data
            more = a.recv(1 << 16) if select.select([a], [], [], 0.02)[0] else None
            if more == b"":
                self.way.released.wait()
            data += more or b""
        return data

    def end(self):
        for one in (self.client, self.server):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            one.close()
