"""The installation's signing key: who may say where a chain ends.

Whoever can write to the database can cut steps off the end and recompute what
points at them. They cannot sign the shorter chain, as the key is not in the
database. All processes of an installation must share DATA_DIR/ledger_key.
"""

from __future__ import annotations

import os
import uuid
from functools import lru_cache
from pathlib import Path
from typing import Literal

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.conf import settings

from omniweb.core.canonical import canonical_json

# A head moves with each step, a checkpoint stays; neither signature passes for the other.
Purpose = Literal["head", "checkpoint"]


def public_key() -> str:
    """Return the public key in hex, for those who verify elsewhere."""
    return _key(_path()).public_key().public_bytes_raw().hex()


def sign(purpose: Purpose, trajectory: uuid.UUID, count: int, head: str) -> str:
    """Sign that a trajectory has `count` steps and the last has the hash `head`; return hex."""
    return _key(_path()).sign(_statement(purpose, trajectory, count, head)).hex()


def is_signed(
    signature: str, purpose: Purpose, trajectory: uuid.UUID, count: int, head: str
) -> bool:
    """Whether this installation's key made a signature over exactly this."""
    try:
        _key(_path()).public_key().verify(
            bytes.fromhex(signature), _statement(purpose, trajectory, count, head)
        )
    except (InvalidSignature, ValueError):
        return False
    return True


def _statement(purpose: Purpose, trajectory: uuid.UUID, count: int, head: str) -> bytes:
    return canonical_json(
        {"purpose": purpose, "trajectory": str(trajectory), "count": count, "head": head}
    )


def _path() -> Path:
    return Path(settings.DATA_DIR) / "ledger_key"


@lru_cache(maxsize=4)
def _key(path: Path) -> Ed25519PrivateKey:
    if not path.exists():
        _create(path)
    return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(path.read_text().strip()))


def _create(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(Ed25519PrivateKey.generate().private_bytes_raw().hex())
    try:
        # Linking fails if another process was first, and never shows a half-written key.
        path.hardlink_to(draft)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
