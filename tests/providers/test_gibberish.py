"""Something else answers where a vendor should: an outage, told as what it is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from omniweb.core.errors import ProviderUnavailable
from sandboxes.manifest import Manifest
from sandboxes.providers.base import Owner, SandboxProvider
from sandboxes.providers.registry import open_provider
from tests.providers.conftest import HOSTED
from tests.providers.hosted import hosted
from tests.providers.services import Reply, listening

pytestmark = pytest.mark.standin

ANSWERS = (b"<html>", b"{}", b"[]", b"[1]", b'"x"', b"null", b'{"items": 3}')


@pytest.fixture(scope="module", params=HOSTED)
def misled(request: pytest.FixtureRequest) -> Iterator[tuple[SandboxProvider, list[bytes]]]:
    """Return a provider whose SDK is led to some other service, and what that says (the last)."""
    says = [b""]
    with (
        hosted(request.param) as vendor,
        listening(lambda asked, wire: Reply(body=says[-1])) as service,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name in vendor.addresses:
            patch.setenv(name, service.url)
        yield open_provider(request.param, {}), says


@pytest.mark.parametrize("answer", ANSWERS)
def test_no_sandbox_comes_of_what_no_vendor_says(
    misled: tuple[SandboxProvider, list[bytes]], answer: bytes
) -> None:
    provider, says = misled
    says.append(answer)
    owner = Owner(install="i", run="r", sandbox="s")
    with pytest.raises(ProviderUnavailable):
        provider.create(Manifest(), owner=owner)
