"""What every page needs: a reader for each thread, the templates, and the frame around the page."""

from __future__ import annotations

import asyncio
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from aiohttp import web
from markupsafe import Markup

from .. import __version__
from ..core.passwords import hide_password
from ..errors import StoreUnreachable, UsageError
from ..ledger.audit import AuditResult
from ..observe import stages
from ..observe.reader import NoStore, StoreReader
from ..system import clock, identity
from . import draw
from .access import Access, Session
from .guard import Guard
from .words import Calendar

T = TypeVar("T")

PAGES = (
    ("now", "Now"),
    ("jobs", "Jobs"),
    ("night", "Night"),
    ("usage", "Usage"),
    ("leases", "Leases"),
    ("journal", "Journal"),
)
THREADS = 4


class Frame:
    """The frame around a page; templates know it as `site`."""

    pages = PAGES

    def __init__(self, site: Site, request: web.Request, page: str) -> None:
        session: Session | None = request["session"]
        self.base, self.page, self.path = site.base, page, request.path_qs
        self.csrf = session.csrf if session else ""
        self.may_change = session is not None and site.guard.may_change(session)
        self.needs, self.host, self.version = site.needs, identity.host(), __version__
        self.store, self.calendar = hide_password(site.url), site.calendar
        self.zone = self.calendar.name

    def moment(self, at: float, text: str = "") -> Markup:
        return draw.moment(self.calendar, at, text)


class Site:
    def __init__(self, url: str, access: Access, guard: Guard) -> None:
        self.url, self.access, self.guard = url, access, guard
        self.audit: AuditResult | None = None  # the last verification of the journal by this process
        self.needs = 0  # how many things needed a person when Now was last drawn
        self.calendar = Calendar("UTC")  # until the ledger's zone is read
        self._templates = draw.environment()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="pages")
        self._local = threading.local()
        self._memo: dict[Any, tuple[float, Any]] = {}  # shared by all readers

    @property
    def base(self) -> str:
        return f"/{self.access.prefix}/"

    async def read(self, look: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """Call `look(reader, …)` in a thread: the event loop must not wait for a database."""
        return await self.work(lambda: look(self._reader(), *arguments, **named))

    async def work(self, do: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, do)

    def draw(
        self, request: web.Request, template: str, page: str = "", *, status: int = 200, **facts: Any
    ) -> web.Response:
        text = self._templates.get_template(template).render(site=Frame(self, request, page), **facts)
        return web.Response(text=text, content_type="text/html", status=status)

    def draw_without_frame(self, template: str, **facts: Any) -> web.Response:
        """Draw a page without its frame, which needs a session."""
        text = self._templates.get_template(template).render(base=self.base, **facts)
        return web.Response(text=text, content_type="text/html")

    def message(self, request: web.Request, title: str, text: str = "", *, status: int, **more: Any) -> web.Response:
        facts = {"back": "", "command": "", "retry": False, **more}
        return self.draw(request, "message.html", title=title, text=text, status=status, **facts)

    @web.middleware
    async def explain_error(self, request: web.Request, handler: Any) -> web.StreamResponse:
        """Show an error as a page that says what is wrong."""
        try:
            response: web.StreamResponse = await handler(request)
            return response
        except NoStore:
            return self.draw(request, "now.html", "now", empty=True, now=clock.wall(), unreachable="", audit=None)
        except StoreUnreachable as error:
            text = f"{error}. This page tries again by itself."
            return self.message(request, "The store does not answer.", text, status=503, retry=True)
        except UsageError as error:
            return self.message(request, "That cannot be shown.", str(error), status=404, back=self.base)
        except (web.HTTPException, OSError, RuntimeError):
            raise  # HTTP replies, and lost connections
        except Exception:  # noqa: BLE001 - show a page that says so
            traceback.print_exc()
            text = "The reason is in the log of the process that draws these pages."
            return self.message(request, "This page could not be drawn.", text, status=500, back=self.base)

    def configured(self) -> set[str]:
        """The jobs of the nightlatch.toml in use, which can be started from a page."""
        return set(stages.configured())

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _reader(self) -> StoreReader:
        found: StoreReader | None = getattr(self._local, "reader", None)
        if found is None or not found.has_ledger:
            found = self._local.reader = StoreReader(self.url)
            found.memo = self._memo
            self.calendar = Calendar(found.ledger.history.zone)
        found.look_again()
        return found
