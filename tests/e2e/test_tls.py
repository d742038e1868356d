"""TLS as clients, peers and operators meet it: what is spoken, which certificates are refused and why, certificates that change
under load, and many handshakes beside an honest client.

The engine takes any client, the platform only those with a certificate of the authority: so each program is a client of the
other in one of the two ways.
"""

import datetime
import json
import os
import pathlib
import re
import signal
import socket
import ssl
import subprocess
import threading
import time

import pytest

import harness
from authority import Authority, openssl
from test_run import RUN, Run
from wire import Closed, Wire

PAST = ("20200101000000Z", "20210101000000Z")


class Secured:
    """Both programs with TLS, and all kinds of certificates."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.authority, self.foreign = Authority(self.folder / "ca"), Authority(self.folder / "foreign", "foreign")
        self.server = self.authority.pair("server")
        self.client = self.authority.pair("client", names=None)
        self.revoked = self.authority.pair("revoked")
        self.expired = self.authority.pair("expired", dates=PAST)
        self.elsewhere = self.authority.pair("elsewhere", names="DNS:elsewhere.example")
        self.stranger = self.foreign.pair("stranger")
        self.trusted = self.folder / "trusted.pem"  # the authority and its list of revoked certificates
        self.trusted.write_text(self.authority.cert.read_text() + self.authority.revoke(self.revoked))
        self.used = self.folder / "used.pem"
        self.used.write_text(self.server.cert.read_text())
        own = ["--tls.cert-file", self.server.cert, "--tls.key-file", self.server.key]
        self.ports = {"engine": harness.free_port(), "platform": harness.free_port()}
        self.stack = harness.Stack(
            self.folder / "stack",
            engine=["--listen.tls", f"127.0.0.1:{self.ports['engine']}", *own, "--tls.ca_file", self.trusted,
                    "--platform.url", f"https://localhost:{self.ports['platform']}"],
            platform=["--listen.tls", f"127.0.0.1:{self.ports['platform']}", *own, "--tls.ca_file", self.trusted,
                      "--tls.client_ca_file", self.trusted, "--engine.url", f"https://127.0.0.1:{self.ports['engine']}"])

    def context(self, pair=None, authority=None):
        """What an honest client has."""
        context = ssl.create_default_context(cafile=str((authority or self.authority).cert))
        if pair:
            context.load_cert_chain(pair.cert, pair.key)
        return context

    def wire(self, name, key, pair=None):
        return Wire(("127.0.0.1", self.ports[name]), self.stack.keys[key], tls=self.context(pair or self.client))

    def s_client(self, name, *options, stdin=b"GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"):
        """What openssl prints; the connection ends with the answer."""
        done = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{self.ports[name]}", "-CAfile", str(self.authority.cert),
                               "-verify_return_error", "-ign_eof", *[str(o) for o in options]],
                              input=stdin, capture_output=True, timeout=harness.PATIENCE)
        return (done.stdout + done.stderr).decode(errors="replace")


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    one = Secured(tmp_path_factory.mktemp("tls"))
    try:
        one.stack.start()
        yield one
        one.stack.engine.stop()
        one.stack.platform.stop()
    finally:
        one.stack.close()


ANSWERED = "HTTP/1.1 200 OK"
WEAK = "DEFAULT:@SECLEVEL=0"  # or openssl itself would not offer it

SPOKEN = {  # name: (options, in what openssl prints, not in it)
    "tls 1.3": (["-tls1_3"], ["New, TLSv1.3", ANSWERED], []),
    "tls 1.2": (["-tls1_2"], ["New, TLSv1.2", "ECDHE", ANSWERED], []),
    "tls 1.1": (["-tls1_1", "-cipher", WEAK], ["alert protocol version"], [ANSWERED]),
    "tls 1.0": (["-tls1", "-cipher", WEAK], ["alert protocol version"], [ANSWERED]),
    "gcm": (["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-GCM-SHA256"], [ANSWERED], []),
    "chacha": (["-tls1_2", "-cipher", "ECDHE-ECDSA-CHACHA20-POLY1305"], [ANSWERED], []),
    "cbc": (["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-SHA256"], ["handshake failure"], [ANSWERED]),
    "no forward secrecy": (["-tls1_2", "-cipher", "AES128-GCM-SHA256"], ["handshake failure"], [ANSWERED]),
    "no encryption": (["-tls1_2", "-cipher", "NULL:@SECLEVEL=0"], ["handshake failure"], [ANSWERED]),
    "no authentication": (["-tls1_2", "-cipher", "aNULL:@SECLEVEL=0"], ["handshake failure"], [ANSWERED]),
    "compression": (["-tls1_2", "-comp"], ["Compression: NONE", ANSWERED], []),
    "alpn http/1.1": (["-alpn", "h2,http/1.1"], ["ALPN protocol: http/1.1", ANSWERED], []),
    "alpn h2 alone": (["-alpn", "h2"], ["no application protocol"], [ANSWERED]),
    "no alpn": ([], ["No ALPN negotiated", ANSWERED], []),
    "sni": (["-servername", "localhost"], [ANSWERED], []),
    "unknown sni": (["-servername", "elsewhere.example"], [ANSWERED], []),
    "no sni": (["-noservername"], [ANSWERED], []),
    "right name": (["-verify_hostname", "localhost"], ["Verification: OK", ANSWERED], []),
    "wrong name": (["-verify_hostname", "elsewhere.example"], ["hostname mismatch"], [ANSWERED]),
    "early data": (["-tls1_3"], ["Max Early Data: 0"], []),
}


@pytest.mark.parametrize("name", SPOKEN)
def test_what_openssl_is_answered(secured, name):
    options, there, missing = SPOKEN[name]
    printed = secured.s_client("engine", *options)
    assert all(text in printed for text in there) and not any(text in printed for text in missing), printed


def test_nobody_renegotiates(secured):
    """A line "R" makes openssl ask for it; TLS 1.3 has none. It ends when it is refused."""
    with subprocess.Popen(["openssl", "s_client", "-tls1_2", "-connect", f"127.0.0.1:{secured.ports['engine']}"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as one:
        one.stdin.write(b"R\n")
        one.stdin.flush()
        printed = one.stdout.read().decode(errors="replace")
    assert "RENEGOTIATING" in printed and "no renegotiation" in printed, printed


def test_a_session_is_resumed_with_a_ticket_and_tickets_are_of_this_start(secured, tmp_path):
    for version in ("-tls1_2", "-tls1_3"):
        ticket = tmp_path / version
        first = secured.s_client("engine", version, "-sess_out", ticket)
        assert "New, TLS" in first and ticket.exists()
        again = secured.s_client("engine", version, "-sess_in", ticket)
        assert "Reused, TLS" in again and ANSWERED in again, again
        other = secured.s_client("platform", version, "-sess_in", ticket, "-cert", secured.client.cert, "-key", secured.client.key)
        assert "New, TLS" in other and ANSWERED in other, other


CLIENTS = {  # the client's certificate: what it is answered
    "client": ANSWERED, "server": ANSWERED, None: "certificate required", "stranger": "alert unknown ca", "expired": "certificate expired",
    "revoked": "certificate revoked"}


@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize("version", ["-tls1_2", "-tls1_3"])
def test_a_certificate_of_a_client_is_a_second_lock(secured, name, version):
    pair = name and getattr(secured, name)
    expected = "handshake failure" if name is None and version == "-tls1_2" else CLIENTS[name]
    printed = secured.s_client("platform", version, *(["-cert", pair.cert, "-key", pair.key] if pair else []))
    assert expected in printed and (ANSWERED in printed) == (expected == ANSWERED), printed


def test_a_certificate_does_not_stand_in_for_a_credential(secured):
    with Wire(("127.0.0.1", secured.ports["platform"]), None, tls=secured.context(secured.client)) as wire:
        assert wire.get("/api/v1/keys").status == 401


class Server:
    """openssl with a certificate; it answers anything in HTTP/1.0."""

    def __init__(self, pair, *options):
        self.port = harness.free_port()
        self.process = subprocess.Popen(["openssl", "s_server", "-accept", f"127.0.0.1:{self.port}", "-cert", pair.cert, "-key", pair.key,
                                         "-www", *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)

    def __enter__(self):
        def listens():
            try:
                socket.create_connection(("127.0.0.1", self.port), 5).close()
                return True
            except OSError:
                return False
        harness.eventually(listens, "openssl listens")
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


PEERS = {  # the peer's certificate: why it is refused
    "server": None, "expired": "certificate has expired", "elsewhere": "hostname mismatch", "stranger": "unable to get local issuer certificate",
    "revoked": "certificate revoked"}


@pytest.mark.parametrize("name", PEERS)
def test_a_peers_certificate_is_verified(secured, name):
    with Server(getattr(secured, name)) as server:
        def ask(*options):
            return secured.stack.cli("--platform", f"https://localhost:{server.port}", *options, "policy", "list", check=False,
                                     key=secured.stack.keys["admin"])
        done = ask("--tls-ca-file", secured.trusted)
        if PEERS[name] is None:
            assert done.returncode == 1 and "is not writ-platform" in done.stderr  # it was asked
            return
        assert done.returncode == 3 and PEERS[name] in done.stderr, done
        done = ask("--tls-insecure-peers")
        assert done.returncode == 1 and "is not writ-platform" in done.stderr, done


class Peer:
    """A peer that refuses each request and closes. `seen` has, for each connection, whether its session was resumed."""

    def __init__(self, pair):
        self.seen, self.listener = [], socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(pair.cert, pair.key)
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                plain, _ = self.listener.accept()
            except OSError:
                return
            try:
                with self.context.wrap_socket(plain, server_side=True) as one:
                    one.recv(1 << 16)
                    one.sendall(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                    self.seen.append(one.session_reused)
                    one.recv(1 << 16)  # until the client has read all, the ticket as well
            except OSError:
                self.seen.append(None)  # refused by the client


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_a_client_resumes_its_last_session_until_its_files_change(secured, fresh, version, tmp_path):
    """A resumed session shows no certificate, so a session must not outlive the authorities that allowed it."""
    peer, trusted = Peer(secured.server), tmp_path / "ca.pem"
    peer.context.maximum_version = getattr(ssl.TLSVersion, version)
    trusted.write_bytes(secured.authority.cert.read_bytes())
    stack = fresh(engine=["--platform.url", f"https://localhost:{peer.port}", "--tls.ca_file", trusted])
    stack.make_first_keys()
    stack.engine.start(ready=False)
    harness.eventually(lambda: True in peer.seen, "a session is resumed")
    assert peer.seen[0] is False and None not in peer.seen
    trusted.write_bytes(secured.foreign.cert.read_bytes())
    harness.eventually(lambda: logged(stack.engine, "tls_reloaded"), "the other authority is in use")
    known = len(peer.seen) + 2  # two threads of the engine may have been under way
    harness.eventually(lambda: len(peer.seen) > known + 3, "more attempts")
    assert set(peer.seen[known:]) == {None}, peer.seen
    peer.listener.close()


def test_an_address_is_no_name(secured):
    with Server(secured.elsewhere) as server:
        done = secured.stack.cli("--platform", f"https://127.0.0.1:{server.port}", "--tls-ca-file", secured.trusted, "policy", "list",
                                 check=False, key=secured.stack.keys["admin"])
        assert done.returncode == 3 and "IP address mismatch" in done.stderr, done
        system = secured.stack.cli("--platform", f"https://localhost:{server.port}", "policy", "list", check=False,
                                   key=secured.stack.keys["admin"])
        assert system.returncode == 3 and "unable to get local issuer certificate" in system.stderr, "the system's authorities are used"


def test_both_programs_and_the_command_line_speak_tls_to_each_other(secured):
    stack = secured.stack
    stack.policy("base", 'rules:\n  - {id: reads, agents: ["*"], users: ["*"], actions: ["get_*"], decision: allow}\n')
    addresses = ["--engine", f"https://localhost:{secured.ports['engine']}", "--platform", f"https://127.0.0.1:{secured.ports['platform']}",
                 "--tls-ca-file", secured.trusted, "--tls-cert-file", secured.client.cert, "--tls-key-file", secured.client.key]
    done = stack.cli(*addresses, "authorize", "get_thing", "--actor", "bot", "--json", key=stack.keys["agent"])
    answer = json.loads(done.stdout)
    assert answer["decision"] == "allow"
    stack.trace(answer["trace_id"])  # published over TLS
    forwarded = stack.cli(*addresses, "policy", "list", "--json", key=stack.keys["admin"])
    assert [one["name"] for one in json.loads(forwarded.stdout)["policies"]] == ["base"]
    with secured.wire("platform", "agent") as wire:  # platform to engine
        assert wire.post("/v1/agent/authorize", {"actor": "bot", "action": "get_thing"}).json["decision"] == "allow"
    with secured.wire("engine", "admin") as wire:  # engine to platform
        assert [one["name"] for one in wire.get("/api/v1/policies").json["policies"]] == ["base"]
        assert wire.get("/healthz").json["checks"]["tls"] == "ok"
    refused = stack.cli(*addresses[:-4], "policy", "list", check=False, key=stack.keys["admin"])
    assert refused.returncode == 3 and "certificate required" in refused.stderr, refused


def test_the_metadata_has_the_scheme_of_the_listener(secured):
    port = secured.ports["engine"]
    with secured.wire("engine", "agent") as wire, secured.stack.at_engine() as plain:
        for one, url in ((wire, f"https://127.0.0.1:{port}"), (plain, secured.stack.engine.url)):
            host = url.split("//")[1]
            reply = one.get("/.well-known/authzen-configuration", headers={"Host": host})
            assert reply.json["policy_decision_point"] == url and reply.json["access_evaluation_endpoint"].startswith(f"{url}/"), reply


@pytest.mark.parametrize("size", [1, 20, 5000])
def test_bytes_may_come_in_any_pieces(secured, size):
    """Records of `size` bytes, and answers far larger than one record."""
    body = json.dumps({"actor": "bot", "action": "get_thing", "context": {"text": "x" * (300 if size == 1 else 40000)}})
    with secured.wire("engine", "agent") as wire:
        for _ in range(2):
            data = wire.encode("POST", "/v1/agent/authorize", body)
            for at in range(0, len(data), size):
                wire.send(data[at:at + size])
            assert wire.read_reply().status == 200
        pipelined = wire.encode("GET", "/livez") * 200
        wire.send(pipelined)
        assert all(wire.read_reply().status == 200 for _ in range(200))


def test_a_client_that_half_closes_or_vanishes_is_let_go(secured):
    def open_connections():
        return secured.stack.metrics(secured.stack.engine)["writ_engine_connections"]
    before = open_connections()
    for end in ("unwrap", "close"):
        wire = secured.wire("engine", "agent").open()
        wire.send(wire.encode("GET", "/livez"))
        assert wire.read_reply().status == 200
        if end == "unwrap":
            wire.socket.unwrap().close()  # close_notify, and the server's own in return
        else:
            socket.socket(fileno=wire.socket.detach()).close()
    harness.eventually(lambda: open_connections() <= before, "both are gone")


def test_a_look_of_a_load_balancer_is_no_failure(secured):
    engine, address = secured.stack.engine, ("127.0.0.1", secured.ports["engine"])

    def failed():
        return secured.stack.metrics(engine)['writ_engine_tls_handshakes_total{outcome="failed"}']

    def plain_http_is_logged():  # one of ten lines a second: there may be others
        with socket.create_connection(address) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
            while plain.recv(100):
                pass
        return any("http request" in line["why"] for line in logged(engine, "tls_handshake_failed"))

    harness.eventually(plain_http_is_logged, "its line in the log")
    time.sleep(1.2)  # the counter is a second old
    before = failed()
    assert before > 0
    for _ in range(3):
        socket.create_connection(address).close()
    time.sleep(1.2)
    assert failed() == before


# ---- certificates that change ----


def serial_of(secured, name="engine"):
    with socket.create_connection(("127.0.0.1", secured.ports[name])) as plain, \
            secured.context(secured.client).wrap_socket(plain, server_hostname="localhost") as one:
        return int(one.getpeercert()["serialNumber"], 16)


def logged_in(path, event):
    return [line for line in map(json.loads, path.read_text().splitlines()) if line.get("event") == event]


def logged(program, event):
    return logged_in(program.log, event)


@pytest.fixture
def renewable(secured):
    """The server's pair is as it was afterwards."""
    before = [(path, path.read_bytes()) for path in (secured.server.cert, secured.server.key)]
    yield secured
    for path, content in before:
        path.write_bytes(content)
    for program in (secured.stack.engine, secured.stack.platform):
        program.signal(signal.SIGHUP)
    with secured.wire("engine", "agent") as wire:
        harness.eventually(lambda: wire.get("/healthz").json["checks"]["tls"] == "ok", "the old pair is in use again")


@pytest.mark.parametrize("name", ["engine", "platform"])
def test_a_new_pair_is_used_and_a_bad_one_refused(renewable, name):
    secured, program = renewable, getattr(renewable.stack, name)
    old, known = serial_of(secured, name), len(logged(program, "tls_refused"))
    with secured.wire(name, "admin") as kept:
        assert kept.get("/livez").status == 200
        good = secured.server.key.read_bytes()
        secured.server.key.write_bytes(secured.client.key.read_bytes())  # another certificate's key
        harness.eventually(lambda: len(logged(program, "tls_refused")) > known, "the bad pair is refused by itself")
        assert "tls.key_file" in logged(program, "tls_refused")[-1]["why"]
        assert serial_of(secured, name) == old, "the old pair stays in use"
        text = kept.get("/healthz").json
        assert text["status"] == "degraded" and "earlier certificates stay in use" in text["checks"]["tls"], text
        secured.server.key.write_bytes(good)
        new = secured.authority.pair(f"renewed-{name}")
        new.copy_to(secured.server)
        program.signal(signal.SIGHUP)
        harness.eventually(lambda: serial_of(secured, name) != old, "the new pair is in use")
        reply = kept.get("/healthz")
        assert reply.json["checks"]["tls"] == "ok" and kept.socket is not None, "the connection was not dropped"


def test_a_certificate_that_is_revoked_later_is_refused_and_so_is_its_ticket(secured, tmp_path):
    """In the same file, while the program runs. A resumed session shows no certificate, so it must not be resumed."""
    platform, before = secured.stack.platform, secured.trusted.read_text()
    one = secured.authority.pair("later", names=None)
    tickets = {version: tmp_path / version for version in ("-tls1_2", "-tls1_3")}

    def ask(version, *options):
        return secured.s_client("platform", version, "-cert", one.cert, "-key", one.key, *options)

    def reload(text):
        known = len(logged(platform, "tls_reloaded"))
        secured.trusted.write_text(text)
        harness.eventually(lambda: len(logged(platform, "tls_reloaded")) > known, "the new list is in use")

    for version, ticket in tickets.items():
        assert ANSWERED in ask(version, "-sess_out", ticket)
        assert "Reused, TLS" in ask(version, "-sess_in", ticket)
    reload(secured.authority.cert.read_text() + secured.authority.revoke(one))
    try:
        for version, ticket in tickets.items():
            for options in ([], ["-sess_in", ticket]):
                printed = ask(version, *options)
                assert "certificate revoked" in printed and ANSWERED not in printed, printed
    finally:
        reload(before)


@pytest.mark.parametrize("version", ["-tls1_2", "-tls1_3"])
def test_a_ticket_ends_with_the_certificate_that_it_was_given_for(secured, tmp_path, version):
    def now():
        return datetime.datetime.now(datetime.timezone.utc)

    def ask(*options):
        return secured.s_client("platform", version, "-cert", one.cert, "-key", one.key, *options)

    for seconds in (4, 30):  # the longer one where the machine needs more than the shorter for two handshakes
        end = (now() + datetime.timedelta(seconds=seconds)).replace(microsecond=0)
        one = secured.authority.pair(f"brief{version}{seconds}", names=None, dates=("20250101000000Z", end.strftime("%Y%m%d%H%M%SZ")))
        first, again = ask("-sess_out", tmp_path / "ticket"), ask("-sess_in", tmp_path / "ticket")
        if now() < end:
            break
    assert ANSWERED in first and "Reused, TLS" in again
    harness.eventually(lambda: now() > end + datetime.timedelta(seconds=1), "it has expired")
    printed = ask("-sess_in", tmp_path / "ticket")
    assert "certificate expired" in printed and ANSWERED not in printed, printed


def test_a_reload_each_second_under_load_fails_no_request(renewable):
    secured = renewable
    seconds = 60 if harness.LONG else 3
    pairs = [secured.authority.pair(f"turn-{i}") for i in range(2)]
    over, failures, served = threading.Event(), [], [0, 0]

    def ask(kept):
        context = secured.context()
        wire = None
        while not over.is_set():
            try:
                if wire is None or not kept:
                    wire = Wire(("127.0.0.1", secured.ports["engine"]), secured.stack.keys["agent"], tls=context).open()
                data = wire.encode("POST", "/v1/agent/authorize", {"actor": "bot", "action": "get_thing"})
                wire.send(data)
                assert wire.read_reply().status == 200
                served[kept] += 1
                if not kept:
                    wire.close()
            except (OSError, Closed, AssertionError) as error:
                failures.append(repr(error))
                wire = None

    threads = [threading.Thread(target=ask, args=(i % 2 == 0,)) for i in range(4)]
    for thread in threads:
        thread.start()
    turns, end = 0, time.monotonic() + seconds
    before = len(logged(secured.stack.engine, "tls_reloaded"))
    while time.monotonic() < end:
        pairs[turns % 2].copy_to(secured.server)
        secured.stack.engine.signal(signal.SIGHUP)
        turns += 1
        over.wait(1)
    over.set()
    for thread in threads:
        thread.join()
    assert not failures, failures[:5]
    assert min(served) > 0 and len(logged(secured.stack.engine, "tls_reloaded")) - before >= turns, (served, turns)
    print(f"{served[0]} new and {served[1]} kept requests over {turns} reloads, none failed")


# ---- many handshakes ----


def resident_kib(program):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{program.pid}/status").read_text())[1])


def client_hello(secured):
    """The first flight of an honest client."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = secured.context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        one.do_handshake()
    return outgoing.read()


def test_many_handshakes_hold_little_and_leave_others_served(secured):
    """Half of the attackers stop after their first flight, half take the whole handshake, again and again."""
    seconds, hello = 10 if harness.LONG else 2, client_hello(secured)
    over, counts = threading.Event(), {"stalled": 0, "whole": 0}

    def stall():
        held = []
        while not over.is_set():
            try:
                one = socket.create_connection(("127.0.0.1", secured.ports["engine"]), 5)
                one.sendall(hello)
                held.append(one)
                counts["stalled"] += 1
                if len(held) > 1500:
                    held.pop(0).close()
            except OSError:
                over.wait(0.01)
        for one in held:
            one.close()

    def finish():
        context = secured.context()
        while not over.is_set():
            try:
                with socket.create_connection(("127.0.0.1", secured.ports["engine"]), 5) as plain:
                    context.wrap_socket(plain, server_hostname="localhost").close()
                counts["whole"] += 1
            except OSError:
                over.wait(0.01)

    with secured.wire("engine", "agent") as honest:
        assert honest.get("/livez").status == 200
        before, took = resident_kib(secured.stack.engine), []
        threads = [threading.Thread(target=target) for target in (stall, finish)]
        for thread in threads:
            thread.start()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            begun = time.monotonic()
            data = honest.encode("POST", "/v1/agent/authorize", {"actor": "bot", "action": "get_thing"})
            honest.send(data)
            assert honest.read_reply().status == 200
            took.append(time.monotonic() - begun)
        grown = resident_kib(secured.stack.engine) - before
        over.set()
        for thread in threads:
            thread.join()
        # 256 handshakes for each reactor, and a connection's own few KiB; sanitizers keep what was freed
        most = 256 * int(harness.REACTORS) * 100 + 3000 * 8 + (256 << 10 if "dev" in harness.BUILD.name else 0)
        assert grown < most, f"{grown} KiB for {counts}"
        took.sort()
        print(f"{counts}: {grown} KiB; the honest client: {len(took)} answers, p99 {took[len(took) * 99 // 100] * 1e3:.1f} ms")
    with secured.wire("engine", "agent") as wire:  # and a new one is served at once
        assert wire.get("/livez").status == 200


# ---- starts ----


def start_of(name, folder, *options):
    done = subprocess.run([str(harness.BIN / name), "--data", str(folder), *[str(o) for o in options]], capture_output=True, text=True,
                          timeout=harness.PATIENCE)
    return done.returncode, done.stderr


@pytest.mark.parametrize("name", ["writ-engine", "writ-platform"])
def test_plain_http_is_not_served_to_other_machines_by_mistake(name, tmp_path):
    for address in ("0.0.0.0:0", "[::]:0"):
        status, printed = start_of(name, tmp_path, "--listen", address)
        assert status == 2 and "listen.tls" in printed and "insecure_public" in printed and "plain text" in printed, printed
    program = harness.Program(name, harness.free_port(), [], tmp_path / "log")
    program.arguments = ["--data", str(tmp_path), "--listen", f"0.0.0.0:{program.port}", "--insecure-public"]
    program.start(ready=False)
    try:
        harness.eventually(program.is_listening, "it listens")
    finally:
        program.end()


def test_what_cannot_work_is_named_at_the_start(secured, tmp_path):
    server, other = secured.server, secured.client
    open_key = tmp_path / "open.key"
    open_key.write_bytes(server.key.read_bytes())
    open_key.chmod(0o644)
    locked = tmp_path / "locked.key"
    openssl("pkcs8", "-topk8", "-in", server.key, "-out", locked, "-passout", "pass:secret", "-v2", "aes-256-cbc")
    locked.chmod(0o600)
    empty = tmp_path / "empty.pem"
    empty.write_text("# nothing\n")
    table = [
        ([], "listen.tls (flag): needs tls.cert_file and tls.key_file"),
        (["--tls.cert_file", server.cert], "tls.cert_file (flag): tls.key_file has to be set as well"),
        (["--tls.cert_file", server.cert, "--tls.key_file", other.key], "does not belong to the certificate"),
        (["--tls.cert_file", tmp_path / "none", "--tls.key_file", server.key], "cannot be opened"),
        (["--tls.cert_file", empty, "--tls.key_file", server.key], "has no certificate in PEM"),
        (["--tls.cert_file", server.cert, "--tls.key_file", open_key], "can be read by others (mode 644)"),
        (["--tls.cert_file", server.cert, "--tls.key_file", locked], "without a password"),
        (["--tls.cert_file", tmp_path, "--tls.key_file", server.key], "must be a file"),
        (["--tls.cert_file", server.cert, "--tls.key_file", server.key, "--tls.client_ca_file", empty], "tls.client_ca_file"),
        (["--tls.cert_file", server.cert, "--tls.key_file", server.key, "--tls.ca_file", empty], "tls.ca_file"),
    ]
    for options, why in table:
        status, printed = start_of("writ-platform", tmp_path / "data", "--listen", "127.0.0.1:0", "--listen.tls", "127.0.0.1:0", *options)
        assert status != 0 and why in printed, (options, printed)
        assert "PRIVATE KEY" not in printed


def test_peers_that_are_not_verified_show_in_healthz(secured, fresh):
    with Server(secured.stranger) as server:
        stack = fresh(platform=["--engine.url", f"https://localhost:{server.port}", "--tls.insecure_peers"])
        stack.make_first_keys()
        stack.platform.start()
        with stack.at_platform("admin") as wire:
            health = wire.get("/healthz").json
        assert health["status"] == "degraded" and "not verified" in health["checks"]["tls"], health


def test_a_proxy_header_comes_before_the_handshake(secured, fresh):
    port = harness.free_port()
    stack = fresh(platform=["--listen.tls", f"127.0.0.1:{port}", "--tls.cert_file", secured.server.cert, "--tls.key_file", secured.server.key,
                            "--http.trusted_proxies", "127.0.0.1", "--http.proxy_protocol"])
    stack.make_first_keys()
    stack.platform.start(ready=False)
    harness.eventually(stack.platform.is_listening, "it listens")
    hello = client_hello(secured)
    for split in (b"", b"P", b"PROXY TCP4 203.0.113.9 127.0.0.1 1 2\r"):  # the header comes in two pieces
        header = b"PROXY TCP4 203.0.113.9 127.0.0.1 1 2\r\n"
        plain = socket.create_connection(("127.0.0.1", port))
        if split:
            plain.sendall(split)
            time.sleep(0.05)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        one = secured.context().wrap_bio(incoming, outgoing, server_hostname="localhost")
        sent = header[len(split):]  # in front of the first flight, in one piece
        done = False
        while not done:
            try:
                one.do_handshake()
                done = True
            except ssl.SSLWantReadError:
                pass
            plain.sendall(sent + outgoing.read())
            sent = b""
            if not done:
                data = plain.recv(1 << 16)
                assert data, "the handshake ended"
                incoming.write(data)
        one.write(b"GET /api/v1/keys HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer wrong\r\nConnection: close\r\n\r\n")
        plain.sendall(outgoing.read())
        reply = b""
        while True:
            try:
                piece = one.read(1 << 16)
                if not piece:
                    break
                reply += piece
            except ssl.SSLWantReadError:
                data = plain.recv(1 << 16)
                if not data:
                    break
                incoming.write(data)
        assert reply.startswith(b"HTTP/1.1 401"), reply
        plain.close()
    with socket.create_connection(("127.0.0.1", port)) as plain:
        plain.sendall(hello)
        assert b"PROXY header of 127.0.0.1 is missing" in plain.recv(1 << 16)
    harness.eventually(lambda: any("203.0.113.9" in json.dumps(line) for line in logged(stack.platform, "auth_failed")), "the client's address")
    assert not any("127.0.0.1" == line.get("client_address") for line in logged(stack.platform, "auth_failed"))


# ---- ops/run --tls ----


def test_the_readmes_story_over_tls(tmp_path):
    """With curl as the README has it, and with the command line: nothing is plain, and nothing is left unverified."""
    run = Run(tmp_path / "data", command=(RUN, "--tls"))
    try:
        story = re.search(r"^curl .*?\n```", (harness.TOP / "README.md").read_text(), re.M | re.S)[0].rstrip("`\n")
        assert "http://127.0.0.1:8080" in story
        environment = {name: value for name, value in os.environ.items() if not name.startswith("WRIT_") or name == "WRIT_BUG"}

        def shell(text, status=0):
            done = subprocess.run(["bash", "-c", f". {run.data}/tls/env; . {run.data}/dev-keys.env; PATH={harness.BIN}:$PATH; {text}"],
                                  capture_output=True, text=True, env=environment, timeout=harness.PATIENCE)
            assert done.returncode == status, done
            return done.stdout + done.stderr

        answer = json.loads(shell(story.replace("http://127.0.0.1:8080", "$WRIT_ENGINE_URL")))
        assert answer["decision"] == "allow" and answer["trace_id"] == "order-17"
        refund = "writ authorize issue_refund --actor invoice_bot --confidence 0.95 --json --args"
        assert json.loads(shell(f"export WRIT_KEY=$WRIT_AGENT_KEY; {refund} '{{\"amount\": 120}}'"))["decision"] == "allow"
        review = json.loads(shell(f"export WRIT_KEY=$WRIT_AGENT_KEY; {refund} '{{\"amount\": 620}}'", status=1))
        assert review["decision"] == "human_review"
        harness.eventually(lambda: "allow:refunds" in shell("export WRIT_KEY=$WRIT_ADMIN_KEY; writ audit trace order-17 || :"), "the record")
        assert "unable to get local issuer certificate" in shell("export WRIT_KEY=$WRIT_ADMIN_KEY WRIT_TLS_CA_FILE=; writ policy list", status=3)
        for name in ("engine", "platform"):  # no plain address
            line = logged_in(run.data / "log" / f"{name}.log", "listening")[-1]
            assert line["address"] == "" and line["unix"] == "" and line["tls"].startswith("127.0.0.1:"), line
    finally:
        run.process.terminate()
        run.process.wait(harness.PATIENCE)
