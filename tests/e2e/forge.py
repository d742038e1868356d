"""Assertions as a platform makes them, with the pepper of the programs under test."""

import base64
import hashlib
import hmac
import json
import time

import canonical

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def encode(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def new_id(prefix="asr_"):
    digits, number = "", int.from_bytes(hashlib.sha256(str(time.monotonic_ns()).encode()).digest()[:16], "big") >> 1
    for _ in range(26):
        digits, number = ALPHABET[number % 32] + digits, number // 32
    return prefix + digits


class Forge:
    def __init__(self, queue):
        self.begin(queue.stack, queue.tenant.name, queue.carol)

    @classmethod
    def of(cls, stack, tenant, key=None):
        made = cls.__new__(cls)
        made.begin(stack, tenant, key)
        return made

    def begin(self, stack, tenant, key):
        self.stack, self.tenant, self.key = stack, tenant, key
        self.secret = canonical.derived_key((stack.data / "pepper").read_text(), "writ assertions of sessions 1")

    def make(self, method, target, secret=None, form="wa2.", **members):
        """Of a session that began with the key; a member that is None is left out."""
        members = {"id": new_id(), "key": self.key and "key_" + self.key[3:29], "made_at": int(time.time() * 1000), "method": method, "person": "carol",
                   "proof": "key", "roles": 4, "target": hashlib.sha256(target.encode()).hexdigest(), "tenant": self.tenant, **members}
        text = form + encode(json.dumps({name: value for name, value in members.items() if value is not None}, ensure_ascii=False).encode())
        return f"{text}.{encode(hmac.digest(secret or self.secret, text.encode(), 'sha256'))}"

    def person(self, method, target, claims=(), **members):
        """Of a person whom an identity provider has verified; claims: pairs of a name and a value."""
        return self.make(method, target, **{"key": None, "proof": "oidc", "claims": [list(one) for one in claims], **members})

    def send(self, assertion, method, target, body=None):
        with self.stack.at_engine(assertion) as wire:
            return wire.request(method, target, body)
