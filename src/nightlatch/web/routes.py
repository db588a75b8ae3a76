"""Which path shows what."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from aiohttp import web

from ..errors import UsageError
from ..ledger.records import RunRow
from ..observe.reader import StoreReader
from ..runtime.supervisor.run import kept_output
from . import job, jobs, journal, leases, night, now, output, run, usage
from .draw import FOLDER
from .guard import COOKIE, HEADERS
from .live import abort_connection, send
from .site import Site

_STATIC = {"nightlatch.css": "text/css", "nightlatch.js": "text/javascript"}
_FAILED_LOGINS = 10  # that are allowed in a minute, of all clients together


class Pages:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._files = {name: _content(name) for name in _STATIC}
        self._failed: list[float] = []

    def routes(self) -> list[web.RouteDef]:
        get = web.get
        return [
            get("/{prefix}/", self.now),
            get("/{prefix}/static/{name}", self.static),
            get("/{prefix}/open/{code}", self.open),
            get("/{prefix}/run/{run}", self.run),
            get("/{prefix}/run/{run}/raw", self.raw),
            get("/{prefix}/find", self.find),
            get("/{prefix}/jobs", self.jobs),
            get("/{prefix}/job/{job:.+}", self.job),
            get("/{prefix}/night", self.night),
            get("/{prefix}/usage", self.usage),
            get("/{prefix}/usage.csv", self.csv),
            get("/{prefix}/leases", self.leases),
            get("/{prefix}/journal", self.journal),
            get("/{prefix}/journal.jsonl", self.export),
        ]

    async def now(self, request: web.Request) -> web.Response:
        site = self._site
        facts = await site.read(now.page, site.calendar, site.base, site.configured(), site.audit)
        site.needs = facts["needs"]
        return site.draw(request, "now.html", "now", **facts)

    async def run(self, request: web.Request) -> web.Response:
        site, query = self._site, request.query
        until = query.get("until", "")

        def look(reader: StoreReader) -> dict[str, Any]:
            return run.page(
                reader,
                site.calendar,
                reader.run(request.match_info["run"]),
                whole_story="all" in query,
                until=int(until) if until.isdecimal() and len(until) < 12 else None,
                find=query.get("find", "")[:200],
            )

        facts = await site.read(look)
        return site.draw(request, "run.html", "jobs", **facts)

    async def jobs(self, request: web.Request) -> web.Response:
        facts = await self._site.read(jobs.page, request.query.get("by", "need"), request.query.get("after", ""))
        return self._site.draw(request, "jobs.html", "jobs", **facts)

    async def job(self, request: web.Request) -> web.Response:
        facts = await self._site.read(job.page, self._site.calendar, request.match_info["job"])
        return self._site.draw(request, "job.html", "jobs", **facts)

    async def night(self, request: web.Request) -> web.Response:
        site, day = self._site, request.query.get("date", "")
        facts = await site.read(lambda reader: night.page(reader, site.calendar, day, site.base))
        return site.draw(request, "night.html", "night", **facts)

    async def usage(self, request: web.Request) -> web.Response:
        facts = await self._site.read(usage.page, self._site.calendar, request.query.get("by", "job"))
        return self._site.draw(request, "usage.html", "usage", **facts)

    async def csv(self, request: web.Request) -> web.Response:
        text = await self._site.read(usage.csv, request.query.get("by", "job"))
        return web.Response(
            text=text, content_type="text/csv", headers={"Content-Disposition": "attachment; filename=usage.csv"}
        )

    async def leases(self, request: web.Request) -> web.Response:
        facts = await self._site.read(leases.page, "all" in request.query)
        return self._site.draw(request, "leases.html", "leases", **facts)

    async def journal(self, request: web.Request) -> web.Response:
        facts = await self._site.read(journal.page, _filter(request), "verify" in request.query)
        self._site.audit = facts["audit"] or self._site.audit
        return self._site.draw(request, "journal.html", "journal", **facts)

    async def export(self, request: web.Request) -> web.StreamResponse:
        wanted = _filter(request)
        if not wanted.job and not wanted.run:
            raise UsageError("name a job or a run: an export is of one chain")
        headers = {"Content-Type": "application/jsonl", "Content-Disposition": "attachment; filename=journal.jsonl"}
        return await self._stream(request, await self._site.read(journal.export, wanted), headers)

    async def raw(self, request: web.Request) -> web.StreamResponse:
        """All kept output, as text that no browser runs."""

        def folder(reader: StoreReader) -> str:
            return output.folder_of(reader, reader.run(request.match_info["run"]).id)

        where = await self._site.read(folder)
        headers = {
            "Content-Type": "text/plain; charset=utf-8",
            "Content-Security-Policy": "sandbox; default-src 'none'",
        }
        return await self._stream(request, kept_output.read(where), headers)

    async def _stream(
        self, request: web.Request, pieces: Iterator[bytes], headers: dict[str, str]
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={**HEADERS, **headers})
        await response.prepare(request)
        try:
            while data := await self._site.work(lambda: next(pieces, b"")):
                await send(response, data)
        except TimeoutError:
            return abort_connection(request)
        return response

    async def find(self, request: web.Request) -> web.Response:
        """A run by its id or the beginning of it, a job by its name, or a run by its key."""
        wanted = request.query.get("q", "").strip()[:200]

        def look(reader: StoreReader) -> RunRow | str | None:
            found = reader.ledger.run(wanted) if wanted else None
            if found or not wanted:
                return found
            jobs = reader.ledger.history.jobs()
            if wanted in jobs:
                return wanted
            near = [name for name in jobs if wanted.lower() in name.lower()]
            return (
                near[0] if near else next((row for job in jobs[:200] if (row := reader.ledger.find(job, wanted))), None)
            )

        found = await self._site.read(look)
        if found is None:
            text = "A run is found by its id or key, a job by its name."
            return self._site.message(request, f"Nothing is named “{wanted}”.", text, status=404, back=self._site.base)
        to = f"job/{found}" if isinstance(found, str) else f"run/{found.id}"
        raise web.HTTPSeeOther(f"{self._site.base}{to}")

    async def open(self, request: web.Request) -> web.Response:
        """Exchange a code for a session. The page then loads Now by itself: on a redirect a browser would not send
        the strict cookie, since another program opened the page."""
        site, moment = self._site, request.loop.time()
        self._failed = [at for at in self._failed if at > moment - 60]
        if len(self._failed) >= _FAILED_LOGINS:
            raise web.HTTPTooManyRequests(text="Too many wrong codes: wait a minute.\n")
        token = site.access.redeem(request.match_info["code"])
        if token is None:
            self._failed.append(moment)
            raise web.HTTPForbidden(text="This code was used, or is over a minute old. Another one: nightlatch open\n")
        response = site.draw_without_frame("opened.html")
        response.set_cookie(
            COOKIE,
            token,
            path=site.base,
            httponly=True,
            samesite="Strict",
            max_age=30 * 86400,
            secure=request.headers.get("Host", "") in site.guard.secure_hosts,
        )
        return response

    async def static(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in _STATIC:
            raise web.HTTPNotFound(text="There is no such file.\n")
        return web.Response(
            body=self._files[name],
            content_type=_STATIC[name],
            charset="utf-8",
            headers={"Cache-Control": "private, max-age=60"},
        )


def _filter(request: web.Request) -> journal.Filter:
    query = {name: request.query.get(name, "").strip()[:200] for name in ("job", "run", "kind", "before")}
    before = query.pop("before")
    return journal.Filter(**query, before=int(before) if before.isdecimal() and len(before) < 16 else 0)


def _content(name: str) -> bytes:
    with open(os.path.join(FOLDER, "static", name), "rb") as file:
        return file.read()
