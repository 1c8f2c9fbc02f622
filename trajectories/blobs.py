"""Large or binary content, stored once per team under its digest."""

from __future__ import annotations

from omniweb.accounts.models import Team
from omniweb.core.canonical import digest_bytes
from omniweb.core.errors import NotFound, TooLarge
from trajectories.models import Blob

MAX_BLOB_BYTES = 64_000_000


def blob_store(*, team: Team, data: bytes, media_type: str = "application/octet-stream") -> Blob:
    """Keep bytes and return their blob; the same bytes again return the same blob.

    The bytes are kept as they are: output must have gone through a RedactingStream.
    Raises TooLarge above MAX_BLOB_BYTES.
    """
    if len(data) > MAX_BLOB_BYTES:
        raise TooLarge(f"{len(data)} bytes are more than the {MAX_BLOB_BYTES} a blob may have")
    digest = digest_bytes(data)
    known = Blob.objects.defer("data").filter(team=team, digest=digest).first()
    if known is None:
        blob = Blob(team=team, digest=digest, size=len(data), media_type=media_type, data=data)
        # Someone may store the same bytes at this moment; theirs are as good as ours.
        Blob.objects.bulk_create([blob], ignore_conflicts=True)
        known = Blob.objects.defer("data").get(team=team, digest=digest)
    return known


def blob_read(*, team: Team, digest: str) -> Blob:
    """Return a team's blob by digest; raises NotFound."""
    blob = Blob.objects.filter(team=team, digest=digest).first()
    if blob is None:
        raise NotFound(f"There is no blob {digest}")
    return blob
