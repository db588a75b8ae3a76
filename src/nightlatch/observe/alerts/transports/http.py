"""One POST, without redirects; a receiver's answer says whether to try again."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from typing import Any

from . import SECONDS, Refused, SendFailed

# Worth another try, although below 500: timeout, conflict, too early, too many requests.
_TEMPORARY = (408, 409, 425, 429)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None  # a signed message goes to the configured receiver only


_opener = urllib.request.build_opener(_NoRedirects)


def post(url: str, body: bytes, headers: dict[str, str]) -> None:
    if not url.startswith(("http://", "https://")):
        raise Refused("the address must begin with https:// or http://")
    try:
        request = urllib.request.Request(url, body, headers)  # noqa: S310 - checked above
        with _opener.open(request, timeout=SECONDS) as reply:
            reply.read(1)
    except urllib.error.HTTPError as error:
        with error:
            why = f"the receiver answered {error.code}"
        raise (SendFailed if error.code >= 500 or error.code in _TEMPORARY else Refused)(why) from None
    except (http.client.InvalidURL, ValueError) as error:
        raise Refused(f"the address is not a URL: {type(error).__name__}") from None  # the URL may be secret
    except (OSError, http.client.HTTPException) as error:
        raise SendFailed(f"no answer: {getattr(error, 'reason', error)}") from None
