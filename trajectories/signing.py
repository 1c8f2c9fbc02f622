"""The installation's signing key: who may say where a chain ends.

Whoever can write to the database can cut steps off the end and recompute what
points at them. They cannot sign the shorter chain, as the key is not in the
database. All processes of an installation share it: the setting OMNIWEB_LEDGER_KEY,
or the file `ledger_key` in the data folder.
"""

from __future__ import annotations

import uuid
from functools import lru_cache
from typing import Literal

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from omniweb.core.canonical import canonical_json
from omniweb.core.keys import secret_kept

# A head moves with each step, a checkpoint stays; neither signature passes for the other.
Purpose = Literal["head", "checkpoint"]


def public_key() -> str:
    """Return the public key in hex, for those who verify elsewhere."""
    return _key().public_key().public_bytes_raw().hex()


def sign(purpose: Purpose, trajectory: uuid.UUID, count: int, head: str) -> str:
    """Sign that a trajectory has `count` steps and the last has the hash `head`; return hex."""
    return _key().sign(_statement(purpose, trajectory, count, head)).hex()


def is_signed(
    signature: str, purpose: Purpose, trajectory: uuid.UUID, count: int, head: str
) -> bool:
    """Whether this installation's key made a signature over exactly this."""
    try:
        _key().public_key().verify(
            bytes.fromhex(signature), _statement(purpose, trajectory, count, head)
        )
    except (InvalidSignature, ValueError):
        return False
    return True


def _statement(purpose: Purpose, trajectory: uuid.UUID, count: int, head: str) -> bytes:
    return canonical_json(
        {"purpose": purpose, "trajectory": str(trajectory), "count": count, "head": head}
    )


def _key() -> Ed25519PrivateKey:
    seed = settings.LEDGER_KEY or secret_kept(settings.DATA_DIR / "ledger_key", _seed_new)
    return _read(seed)


def _seed_new() -> str:
    return Ed25519PrivateKey.generate().private_bytes_raw().hex()


@lru_cache(maxsize=4)
def _read(seed: str) -> Ed25519PrivateKey:
    try:
        return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(seed))
    except ValueError:
        raise ImproperlyConfigured("OMNIWEB_LEDGER_KEY is not 32 bytes in hex") from None
