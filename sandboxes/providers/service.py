"""A service spoken to over HTTP, which may be slow, huge, broken or hostile.

Every request has an end in time and a bound in size, and goes to the configured address alone:
no redirects, no proxies of the server's environment, and no compressed answers, of which a few
bytes can become gigabytes. Each has a connection of its own, because one that is kept can close
just when a command is sent, and then nobody knows whether the command ran.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import ssl
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import wait
from dataclasses import dataclass
from functools import cache
from typing import Any

import httpx

from omniweb.core.errors import InvalidInput, ProviderError, ProviderUnavailable
from omniweb.core.text import visible
from sandboxes.providers.limits import KIB
from sandboxes.providers.pump import Stop, Watch

CONNECT_SECONDS = 10.0
# Read of a refusal, and shown of it.
REFUSAL_BYTES = 16 * KIB
REASON_CHARACTERS = 1000
# What is shorter is no secret, and hiding it would garble what is said.
SECRET_CHARACTERS = 6
HIDDEN = "********"
UNAVAILABLE = (429, 502, 503, 504)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came back; `is_whole` is false when there was more than the asked limit.

    `retry_after` are the seconds it asks to be left alone for, where it does.
    """

    status: int
    body: bytes
    is_whole: bool
    retry_after: int | None = None

    @property
    def is_success(self) -> bool:
        """Whether the service did what was asked."""
        return 200 <= self.status < 300

    def fields(self) -> dict[str, Any]:
        """Return the JSON object in the body; raises ValueError saying what is there instead."""
        if not self.is_whole:
            raise ValueError(f"more than {len(self.body)} bytes")
        try:
            found = json.loads(self.body)
        except (ValueError, RecursionError):
            raise ValueError("something that is not JSON") from None
        if not isinstance(found, dict):
            raise ValueError("JSON that is not an object")
        return found


@dataclass(frozen=True, kw_only=True)
class Silence:
    """No whole answer came: what was asked may have been done, in part or to its end.

    `stop` says why nobody waited any longer, None when the connection broke.
    """

    why: str
    stop: Stop | None = None


class Service:
    """One address with the headers every request carries; making one calls nobody."""

    def __init__(
        self, base_url: str, *, token: str | None, headers: Mapping[str, str], verify_tls: bool
    ) -> None:
        self._base_url = base_url.rstrip("/")
        given = [(name.encode(), text.strip().encode()) for name, text in headers.items()]
        own = [(b"User-Agent", b"OmniWeb"), (b"Accept", b"*/*")]
        self._headers = httpx.Headers(own)
        self._headers.update(httpx.Headers(given))
        self._headers["Accept-Encoding"] = "identity"
        if token:
            bearer = f"Bearer {token.strip()}".encode()
            self._headers.update(httpx.Headers([(b"Authorization", bearer)]))
        words = [word for text in headers.values() for word in (text.strip(), *text.split())]
        self._secrets = [*words, (token or "").strip()]
        self._tls = ssl.create_default_context()
        if not verify_tls:
            self._tls.check_hostname = False
            self._tls.verify_mode = ssl.CERT_NONE

    def ask(
        self,
        method: str,
        path: str,
        *,
        watch: Watch,
        limit: int,
        content: bytes | None = None,
        content_type: str = "",
    ) -> Answer | Silence:
        """Send one request and wait for its answer, at most `limit` bytes, until the watch stops.

        `path` is quoted already. Raises ProviderUnavailable when nothing was sent, and
        ProviderError when nothing can be.
        """
        headers = self._headers.copy()
        if content_type:
            headers["Content-Type"] = content_type
        url = self._base_url + path
        sending = asyncio.run_coroutine_threadsafe(
            self._send(method, url, headers, content, limit), _loop(os.getpid())
        )
        while not wait([sending], timeout=watch.wait()).done:
            if stop := watch.stop():
                sending.cancel()
                late = stop is Stop.TIME_LIMIT
                why = "did not answer in time" if late else "was not waited for any longer"
                return Silence(why=f"The sandbox service {why}", stop=stop)
        return sending.result()

    def answer(self, method: str, path: str, *, seconds: float, **asked: Any) -> Answer:
        """Ask as `ask` does, for at most that many seconds; no answer is ProviderUnavailable."""
        answer = self.ask(method, path, watch=Watch(seconds, lambda: False), **asked)
        if isinstance(answer, Silence):
            raise ProviderUnavailable(answer.why)
        return answer

    async def _send(
        self, method: str, url: str, headers: httpx.Headers, content: bytes | None, limit: int
    ) -> Answer | Silence:
        # Only connecting has a limit here; whoever asked cancels this when all is too long.
        phases = httpx.Timeout(None, connect=CONNECT_SECONDS)
        try:
            async with (
                httpx.AsyncClient(verify=self._tls, trust_env=False, timeout=phases) as client,
                client.stream(method, url, headers=headers, content=content) as response,
            ):
                return await _read(response, limit)
        except (httpx.LocalProtocolError, httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
            # What it says can quote a header; the cause would be logged with it.
            raise ProviderError(
                f"The request to the sandbox service cannot be sent: {self.spoken(str(error))}"
            ) from None
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise ProviderUnavailable(
                f"The sandbox service could not be reached: {self._told(error)}"
            ) from error
        except httpx.TransportError as error:
            return Silence(why=f"The sandbox service broke off: {self._told(error)}")

    def _told(self, error: Exception) -> str:
        return self.spoken(f"{type(error).__name__}: {error}".removesuffix(": "))

    def spoken(self, text: str, hidden: Iterable[str] = ()) -> str:
        """Return a service's words fit to be kept and read: cut, visible, without our secrets.

        `hidden` are further texts that must not come up, such as the values of variables.
        """
        secrets = (one for one in (*self._secrets, *hidden) if len(one) >= SECRET_CHARACTERS)
        for secret in sorted(secrets, key=len, reverse=True):
            text = text.replace(secret, HIDDEN)
        text = " ".join(text.split())
        cut = f"{text[:REASON_CHARACTERS]}…" if len(text) > REASON_CHARACTERS else text
        return visible(cut, keep="")

    def refusal(self, answer: Answer, request: str, hidden: Iterable[str] = ()) -> ProviderError:
        """Return what was answered to a request in place of what it asked, with its reason."""
        reason = self.reason(answer, hidden)
        because = f": {reason}" if reason else ""
        words = f"The sandbox service answered {answer.status} for {request}{because}"
        if answer.status not in UNAVAILABLE:
            return ProviderError(words)
        later = {} if answer.retry_after is None else {"retry_after": answer.retry_after}
        return ProviderUnavailable(words, **later)

    def reason(self, answer: Answer, hidden: Iterable[str] = ()) -> str:
        """Return why a service says it did not do what was asked; empty when it does not say."""
        if 300 <= answer.status < 400:
            return "redirects are not followed; base_url has to be the service's own address"
        try:
            # The form of RFC 9457, which our own protocol answers with.
            said = answer.fields().get("detail")
        except ValueError:
            said = None
        whole = answer.body.decode("utf-8", "replace")
        return self.spoken(said if isinstance(said, str) and said else whole, hidden)


def json_bytes(body: Mapping[str, Any]) -> bytes:
    """Return a body as JSON; raises InvalidInput for text that is not Unicode."""
    try:
        return json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise InvalidInput("The http protocol carries Unicode text only; this is none") from None


async def _read(response: httpx.Response, limit: int) -> Answer:
    if response.headers.get("content-encoding", "identity") != "identity":
        raise ProviderError(
            f"The sandbox service compressed its answer ({response.status_code}), which was not "
            "asked for"
        )
    limit = limit if response.is_success else REFUSAL_BYTES
    body = bytearray()
    async for part in response.aiter_raw():
        body += part
        if len(body) > limit:
            break
    later = response.headers.get("retry-after", "")
    return Answer(
        status=response.status_code,
        body=bytes(body[:limit]),
        is_whole=len(body) <= limit,
        retry_after=int(later) if re.fullmatch(r"[0-9]{1,9}", later) else None,
    )


@cache
def _loop(process: int) -> asyncio.AbstractEventLoop:
    """Return the loop that carries a process's requests, in a thread of its own.

    Only there can a request be ended at any moment, whatever it waits for. A forked process
    has not inherited the thread, hence one for each.
    """
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="http services", daemon=True).start()
    return loop
