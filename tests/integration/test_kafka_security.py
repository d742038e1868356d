"""TLS and SASL against a real broker: who may come in does, who may not is told why, and nothing is lost meanwhile.

One broker has a listener for each way in; one engine and one platform live through the whole module, each test
starting them with other options. What the engine answered is in the store at the end of each test, once.
"""

import base64
import ctypes
import json
import pathlib
import subprocess
import time

import pytest

import checker
from kafka_rig import BUILD, TOP, Broker, Stack, eventually, free_port
from wire import Wire

USER, SCRAM_WORD, PLAIN_WORD = "writ", "open-sesame-of-scram", "open sesame; of 'plain'"
GUEST = "guest"  # the brokers know it, and it may do nothing
SCRAM_OF_LIBRARY = 0x020601FF  # 2.6.1 writes the nonce that brokers compare from Kafka 4 on


def library_version():
    """That of the client library which the programs are linked with, here."""
    library = ctypes.CDLL(next(line.split()[2] for line in subprocess.run(["ldd", BUILD / "bin" / "writ-engine"], capture_output=True, text=True,
                                                                           check=True).stdout.splitlines() if "librdkafka.so" in line))
    return library.rd_kafka_version()


# ---- certificates, tokens ----


class Certificates:
    """Two authorities, and brokers' certificates: of the first, for this host and for another."""

    def __init__(self, folder):
        self.folder = folder
        for authority in ("fleet", "stranger"):
            self.openssl("req", "-x509", *self.key(authority), "-days", "2", "-subj", f"/CN={authority}", "-out", f"{authority}.pem")
        self.leaf("here", "IP:127.0.0.1,DNS:localhost")
        self.leaf("elsewhere", "DNS:kafka.elsewhere.example")
        self.fleet, self.stranger = folder / "fleet.pem", folder / "stranger.pem"

    def openssl(self, *words):
        subprocess.run(["openssl", *words], cwd=self.folder, check=True, capture_output=True)

    @staticmethod
    def key(name):
        return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{name}.key"]

    def leaf(self, name, names):
        (self.folder / f"{name}.names").write_text(f"subjectAltName={names}\n")
        self.openssl("req", *self.key(name), "-subj", f"/CN={name}", "-out", f"{name}.csr")
        self.openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "fleet.pem", "-CAkey", "fleet.key", "-CAcreateserial", "-days", "2",
                     "-extfile", f"{name}.names", "-out", f"{name}.crt")
        (self.folder / f"{name}.pem").write_text((self.folder / f"{name}.key").read_text() + (self.folder / f"{name}.crt").read_text())


SUBJECT = "writ-fleet"


def token(seconds, subject=SUBJECT):
    """An unsecured JWT, which Kafka's own validator for development takes."""
    def part(value):
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")
    now = time.time()
    return f"{part({'alg': 'none'})}.{part({'sub': subject, 'iat': int(now) - 600, 'exp': now + seconds})}."


# ---- the broker ----

KAFKA = "org.apache.kafka.common.security"


class SecureBroker(Broker):
    """SASL_SSL with every mechanism, SSL, and SSL with a certificate for another host; PLAINTEXT for the broker itself."""

    def __init__(self, certificates, old=False):
        super().__init__()
        self.sasl, self.tls, self.elsewhere = (f"127.0.0.1:{free_port()}" for _ in range(3))
        more = pathlib.Path(self.folder) / "more.properties"
        more.write_text(self.settings(certificates.folder))
        users = " ".join(f"SCRAM-SHA-{bits}=[name={USER},password={SCRAM_WORD}]" for bits in (256, 512))
        self.environment |= {"WRIT_KAFKA_MORE": str(more), "WRIT_KAFKA_SCRAM": users}
        if old:
            self.environment |= {"WRIT_KAFKA_POM": str(TOP / "ops/lib/kafka/pom-3.9.xml"), "WRIT_KAFKA_JARS": str(TOP / "build/stack-jars-3.9")}

    def settings(self, folder):
        own = {"SASL_SSL": self.sasl, "SSL": self.tls, "ELSEWHERE": self.elsewhere, "PLAINTEXT": self.address}
        told = ",".join(f"{name}://{address}" for name, address in own.items())
        login = {"scram-sha-512": "scram.ScramLoginModule", "scram-sha-256": "scram.ScramLoginModule",
                 "oauthbearer": "oauthbearer.OAuthBearerLoginModule"}
        return "\n".join([
            f"listeners={told},CONTROLLER://127.0.0.1:{self.port + 1}",
            f"advertised.listeners={told}",
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL,ELSEWHERE:SSL",
            "ssl.keystore.type=PEM",
            f"ssl.keystore.location={folder}/here.pem",
            "listener.name.elsewhere.ssl.keystore.type=PEM",
            f"listener.name.elsewhere.ssl.keystore.location={folder}/elsewhere.pem",
            "sasl.enabled.mechanisms=SCRAM-SHA-512,SCRAM-SHA-256,PLAIN,OAUTHBEARER",
            "connections.max.reauth.ms=3600000",  # a connection ends with its token
            *(f"listener.name.sasl_ssl.{name}.sasl.jaas.config={KAFKA}.{module} required;" for name, module in login.items()),
            f"listener.name.sasl_ssl.plain.sasl.jaas.config={KAFKA}.plain.PlainLoginModule required"
            f" user_{USER}=\"{PLAIN_WORD}\" user_{GUEST}=\"{PLAIN_WORD}\";",
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            f"super.users=User:ANONYMOUS;User:{USER};User:{SUBJECT}",
            "listener.name.sasl_ssl.oauthbearer.sasl.server.callback.handler.class="
            f"{KAFKA}.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler", ""])


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("certificates"))


def started(broker):
    why = broker.up()
    if why:
        broker.close()
        pytest.skip(f"SKIP: {why}")
    return broker


@pytest.fixture(scope="module")
def secure(certificates):
    broker = started(SecureBroker(certificates))
    yield broker
    broker.close()


@pytest.fixture(scope="module")
def scram_broker(certificates, request):
    """One that takes the SCRAM of the library that is here."""
    if library_version() >= SCRAM_OF_LIBRARY:
        yield request.getfixturevalue("secure")
        return
    broker = started(SecureBroker(certificates, old=True))
    yield broker
    broker.close()


# ---- the fleet ----


class Fleet:
    """One engine and one platform, restarted with other ways in; what clients were told so far."""

    def __init__(self, folder, certificates):
        self.folder, self.certificates = folder, certificates
        self.stack = Stack(folder, engine=["--node", "secure-1"])
        self.stack.make_first_keys()
        self.plain = {program: list(program.arguments) for program in self.programs}
        self.told = checker.Told(folder / "told.ndjson")
        self.count, self.mark = 0, {}  # decisions; the size of each log when its program was started

    @property
    def programs(self):
        return (self.stack.platform, self.stack.engine)

    def secret(self, name, text):
        """A file of that text, put there by renaming, as who renews one should."""
        path = self.folder / name
        fresh = path.with_suffix(".fresh")
        fresh.write_text(text)
        fresh.chmod(0o600)
        fresh.replace(path)
        return path

    def start_one(self, program, address, topic, ready=True, **options):
        options = {"brokers": address, "topic": topic, **options}
        words = [word for name, value in options.items() for word in (f"--kafka.{name.replace('sasl_', 'sasl.')}", str(value))]
        program.arguments = self.plain[program] + words
        self.mark[program] = program.log.stat().st_size if program.log.exists() else 0
        program.start(ready)

    def start(self, address, topic, **options):
        for program in self.programs:
            self.start_one(program, address, topic, **options)

    def tls(self, **more):
        return {"security": "ssl", "ca_file": self.certificates.fleet, **more}

    def sasl(self, mechanism, **more):
        return self.tls(security="sasl_ssl", sasl_mechanism=mechanism, **more)

    def decide(self, count=20):
        with self.stack.at_engine() as wire:
            for _ in range(count):
                self.count += 1
                trace = f"secure.{self.count}"
                self.told.tell({"sent": [trace]})
                body = wire.post("/v1/agent/authorize", {"action": "get_x", "trace_id": trace}).json
                self.told.tell({"answer": trace, "request_id": body["request_id"], "decision": body["decision"], "output_hash": body["output_hash"]})

    def all_is_stored(self):
        self.stack.wait_published()
        checker.check(self.told, checker.SqliteStore(self.stack.data / "platform.db"), nodes={"secure-1"})

    def logged(self, program):
        """What it has logged since it was started."""
        return program.log.read_text(errors="replace")[self.mark[program]:]

    def platform_says(self):
        with Wire(self.stack.platform.address) as wire:
            return json.dumps(wire.get("/healthz").json["checks"]["kafka"])

    def engine_says(self):
        return [line for line in self.logged(self.stack.engine).splitlines() if '"publish_failed"' in line]

    def both_say(self, words, engine=None):
        """Why nothing goes through: the platform at /healthz, the engine in its log (at /healthz after 15 s)."""
        eventually(lambda: words in self.platform_says(), f"the platform says \"{words}\" and not {self.platform_says()}")
        eventually(lambda: any((engine or words) in line for line in self.engine_says()),
                   f"the engine says \"{engine or words}\" and not {self.engine_says()}")

    def stop(self):
        for program in reversed(self.programs):
            if program.process is not None:
                program.stop()

    def leave(self):
        """Both down, with records left: an engine that is asked to stop would try for ten seconds to publish them."""
        self.stack.engine.end()
        self.stop()

    def close(self):
        for program in self.programs:
            program.end()
        self.told.close()


@pytest.fixture(scope="module")
def one_fleet(tmp_path_factory, certificates):
    fleet = Fleet(tmp_path_factory.mktemp("secure"), certificates)
    yield fleet
    fleet.close()


@pytest.fixture
def fleet(one_fleet):
    """Both programs are down at the beginning and at the end; what was said of secrets is nothing."""
    yield one_fleet
    one_fleet.stop()
    for program in one_fleet.programs:
        text = program.log.read_text(errors="replace")
        for secret in (SCRAM_WORD, PLAIN_WORD, "not the word", "eyJhbGciOi"):
            assert secret not in text, f"{program.name} has logged a secret"


TOPIC = "writ.audit.secure"


def test_over_tls_records_reach_the_store(secure, fleet):
    fleet.start(secure.tls, TOPIC, **fleet.tls())
    fleet.decide()
    fleet.all_is_stored()


def test_by_plain_records_reach_the_store(secure, fleet):
    word = fleet.secret("plain.password", PLAIN_WORD + "\n")
    fleet.start(secure.sasl, TOPIC, **fleet.sasl("PLAIN", user=USER, password_file=word))
    fleet.decide()
    fleet.all_is_stored()


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "SCRAM-SHA-256"])
def test_by_scram_records_reach_the_store(scram_broker, fleet, mechanism):
    word = fleet.secret("scram.password", SCRAM_WORD + "\n")
    fleet.start(scram_broker.sasl, "writ.audit.scram", **fleet.sasl(mechanism, user=USER, password_file=word))
    fleet.decide()
    fleet.all_is_stored()


def test_a_library_too_old_for_the_brokers_scram_is_told(secure, fleet):
    if library_version() >= SCRAM_OF_LIBRARY:
        pytest.skip("SKIP: this librdkafka is new enough")
    word = fleet.secret("scram.password", SCRAM_WORD + "\n")
    fleet.start(secure.sasl, TOPIC, **fleet.sasl("SCRAM-SHA-512", user=USER, password_file=word))
    fleet.decide()
    fleet.both_say("need a librdkafka of 2.6.1")
    fleet.leave()


def test_a_wrong_password_is_told_and_a_mended_file_is_enough(secure, fleet):
    word = fleet.secret("plain.password", "not the word\n")
    fleet.start(secure.sasl, TOPIC, **fleet.sasl("PLAIN", user=USER, password_file=word))
    fleet.decide()
    fleet.both_say("the brokers refuse kafka.user or the password in kafka.password_file")
    fleet.secret("plain.password", PLAIN_WORD)
    fleet.all_is_stored()


def test_who_may_not_use_the_topic_is_told_so_and_nothing_is_lost(secure, fleet):
    word = fleet.secret("plain.password", PLAIN_WORD)
    fleet.start(secure.sasl, TOPIC, **fleet.sasl("PLAIN", user=GUEST, password_file=word))
    fleet.decide()
    fleet.both_say("Topic authorization failed", engine="AUTHORIZATION_FAILED")
    fleet.leave()
    fleet.start(secure.sasl, TOPIC, **fleet.sasl("PLAIN", user=USER, password_file=word))
    fleet.all_is_stored()


def test_what_tls_refuses_is_told_apart_and_nothing_is_lost(secure, fleet, certificates):
    stranger = (secure.tls, fleet.tls(ca_file=certificates.stranger), "not signed by a trusted authority: look at kafka.ca_file")
    elsewhere = (secure.elsewhere, fleet.tls(), "certificate is for another host")
    plaintext = (secure.tls, {}, "look at kafka.security")
    no_tls = (secure.address, fleet.tls(), "check that this is a port for TLS, and look at kafka.security")
    for of_platform, of_engine in ((stranger, elsewhere), (no_tls, plaintext)):
        for program, (address, options, _) in zip(fleet.programs, (of_platform, of_engine)):
            fleet.start_one(program, address, TOPIC, **options)
        fleet.decide(5)
        fleet.both_say(of_platform[2], of_engine[2])
        fleet.leave()
    fleet.start(secure.tls, TOPIC, **fleet.tls())
    fleet.all_is_stored()


@pytest.mark.parametrize("name", ["platform", "engine"])
def test_a_ca_file_that_is_none_is_refused_at_the_start(secure, fleet, name):
    program = getattr(fleet.stack, name)
    fleet.start_one(program, secure.tls, TOPIC, ready=False, security="ssl", ca_file="nowhere.pem")
    assert program.wait() == 2
    assert "kafka.ca_file (flag) cannot be used" in fleet.logged(program)


def test_a_token_is_read_anew_until_it_is_good(secure, fleet):
    path = fleet.folder / "token"
    fleet.start(secure.sasl, TOPIC, **fleet.sasl("OAUTHBEARER", token_file=path))
    fleet.decide()
    fleet.both_say("kafka.token_file")  # there is none yet
    assert "cannot be opened" in fleet.platform_says()
    fleet.secret("token", token(-60) + "\n")
    fleet.both_say("expired at")
    fleet.secret("token", token(3600) + "\n")
    fleet.all_is_stored()


def test_a_token_that_runs_out_stops_records_until_it_is_renewed(secure, fleet):
    path = fleet.secret("token", token(4))
    fleet.start(secure.sasl, TOPIC, **fleet.sasl("OAUTHBEARER", token_file=path))
    fleet.decide()
    fleet.all_is_stored()
    engine = fleet.stack.engine
    def stands_still():
        fleet.decide(1)
        return fleet.stack.metrics(engine)["writ_engine_publish_delivery_lag_records"] >= 10
    eventually(stands_still, "the brokers end the connection with its token")
    eventually(lambda: '"kafka_token"' in fleet.logged(engine) and "expired at" in fleet.logged(engine), f"the engine says why:\n{engine.tail()}")
    fleet.secret("token", token(3600))
    fleet.all_is_stored()
