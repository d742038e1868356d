"""The MAC of records on their way (schemas/evidence.md), written a second time."""

import hashlib
import hmac

from canonical import derived_key

LABEL = "writ records of engines 1"


def leaf(line):
    return hashlib.sha256(b"\0" + line).digest()


def key(pepper, node, journal="0"):
    """`pepper`: the text of its file."""
    return hmac.new(derived_key(pepper, LABEL), node.encode() + b"\0" + journal.encode(), hashlib.sha256).digest()


def mac(stream_key, epoch, first, lines, from_seq=0, checkpoint="", frontier=""):
    text = epoch.encode() + first.to_bytes(8, "big") + len(lines).to_bytes(8, "big") + b"".join(map(leaf, lines))
    text += from_seq.to_bytes(8, "big") + checkpoint.encode() + b"\n" + frontier.encode()
    return hmac.new(stream_key, text, hashlib.sha256).hexdigest()


def headers(pepper, node, epoch, first, body, journal="0"):
    """Of a batch, as an engine sends it."""
    body = body if isinstance(body, bytes) else body.encode()
    lines = body.removesuffix(b"\n").split(b"\n") if body else []
    made = {"Content-Type": "application/x-ndjson", "Writ-Node": node, "Writ-Journal": journal, "Writ-Epoch": epoch, "Writ-First-Seq": str(first)}
    if len(epoch) == 16 and 0 <= first < 1 << 64:
        made["Writ-Mac"] = mac(key(pepper, node, journal), epoch, first, lines)
    return made
