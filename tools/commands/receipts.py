"""Commands about digests and receipts: verify a receipt without the service, and compute a digest in the database."""

import argparse
import http.client
import os
import pathlib
import urllib.error
import urllib.request

import msgspec

from core.base.ids import parse_id
from core.runtime.container import Runtime
from core.sessions.receipts import signing
from core.sessions.receipts.show import chat_digest
from core.sessions.receipts.signing import JwkSet, NotValid, ReceiptKeys
from core.settings.environment import read
from core.settings.settings import DEVELOPMENT_RECEIPT_SEED
from tools.commands.running import Failed, console, with_runtime

LARGEST = 1 << 20  # bytes of a receipt or a key set
WAIT_S = 10.0


def verify(args: argparse.Namespace) -> int:
    """Verify a receipt's signature and print what it says. Return 1 if it is not valid."""
    document = _content(args.file)
    try:
        receipt = signing.verify(document, _keys(args.keys))
    except NotValid as error:
        raise Failed(f"{args.file}: NOT VALID: {error}") from error
    console.print(f"{args.file}: VALID, signed with the key {msgspec.json.decode(document)['key_id']}", markup=False)
    for name, value in msgspec.to_builtins(receipt).items():
        console.print(f"{name:<24}{'' if value is None else value}", markup=False)
    return 0


def _keys(source: str | None) -> JwkSet:
    """Return a key set from a file or a URL; without either, the keys of RECEIPT_SIGNING_KEYS.

    The key of development is in the source code, so a receipt that it has signed proves nothing.
    """
    if source is None:
        known = read(os.environ).receipt_signing_keys
        secret = [(kid, seed) for kid, seed in known if seed != DEVELOPMENT_RECEIPT_SEED]
        if not secret:
            raise Failed(
                "RECEIPT_SIGNING_KEYS has no key of a service; pass the service's key set with --keys URL|FILE"
            )
        return ReceiptKeys(secret).jwk_set()
    content = _download(source) if source.startswith(("https://", "http://")) else _content(source)
    try:
        return msgspec.json.decode(content, type=JwkSet)
    except msgspec.DecodeError as error:
        raise Failed(f"{source} is no JWK set: {error}") from error


def _content(path: str) -> bytes:
    try:
        with pathlib.Path(path).open("rb") as file:
            content = file.read(LARGEST + 1)
    except OSError as error:
        raise Failed(f"{path} can't be read: {error.strerror}") from error
    if len(content) > LARGEST:
        raise Failed(f"{path} is larger than {LARGEST} bytes")
    return content


def _download(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=WAIT_S) as answer:
            return answer.read(LARGEST)
    except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError) as error:
        raise Failed(f"{url} can't be read: {error}; save the key set to a file and pass that") from error


def digest(args: argparse.Namespace) -> int:
    """Print the digest of a session's chat up to its last message, or up to `--seq`."""
    session_id = parse_id(args.id)
    if session_id is None:
        raise Failed(f"{args.id!r} is not an id (a UUID)")

    async def work(runtime: Runtime) -> int:
        found = await chat_digest(runtime, session_id, up_to=args.seq)
        if found is None:
            raise Failed("there is no such session, or it has fewer messages")
        seq, text = found
        if text is None:
            raise Failed(
                "the texts of this session were removed before its digest was computed, or messages are missing"
            )
        print(f"{seq} {text}")
        return 0

    return with_runtime(work)
