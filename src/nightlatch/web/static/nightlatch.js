// Everything here is a comfort: each page works without it.
"use strict";
const $ = (q, from = document) => from.querySelector(q);
const all = (q, from = document) => [...from.querySelectorAll(q)];
const page = document.body.dataset;

// a command, copied
document.addEventListener("click", async (event) => {
  const button = event.target.closest(".command-button");
  if (!button) return;
  await navigator.clipboard?.writeText(button.dataset.command).catch(() => {});
  button.classList.add("done");
  setTimeout(() => button.classList.remove("done"), 1500);
});

// keys: / find, j k rows, Enter opens, g + letter goes, ? help
const GO = { n: "now", j: "jobs", i: "night", u: "usage", l: "leases", r: "journal" };
let before = "";
document.addEventListener("keydown", (event) => {
  if (event.metaKey || event.ctrlKey || event.altKey || event.target.closest("input, textarea, select, dialog[open]")) return;
  const key = event.key;
  if (key === "/") { event.preventDefault(); $("#find").focus(); }
  else if (key === "?") $("#keys").showModal();
  else if (before === "g" && GO[key]) $(`nav a[data-page="${GO[key]}"]`)?.click();
  else if (key === "j") move(1);
  else if (key === "k") move(-1);
  else if (key === "f") $("#follow")?.click();
  before = key;
});
function move(by) {
  const rows = all("[data-row]");
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  const row = rows[Math.min(Math.max(at + by, 0), rows.length - 1)];
  if (row) (row.matches("a") ? row : $("a, button", row)).focus();
}

// away: the server does not answer; the page keeps what it shows, says so, and goes on by itself
let goneSince = null;
function reached(ok) {
  if (ok === (goneSince === null)) return;
  goneSince = ok ? null : new Date();
  $("#live")?.classList.toggle("gone", !ok);
  const note = $("#away");
  if (!note) return;
  note.hidden = ok;
  note.textContent = ok ? "" : `Nightlatch does not answer since ${goneSince.toTimeString().slice(0, 5)}. This page shows what it last knew, and tries again by itself.`;
}

// draw again: only the parts marked for it, and never under a reader's hands
const keysOf = (from) => new Set(all("[data-key]", from).map((one) => one.dataset.key));
async function redraw(pressed = false) {
  let text;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" }, redirect: "error" });
    reached(true);
    if (!answer.ok) return;
    text = await answer.text();
  } catch { return reached(false); }
  const fresh = new DOMParser().parseFromString(text, "text/html");
  for (const old of all("[data-live]")) {
    const made = fresh.querySelector(`[data-live="${old.dataset.live}"]`);
    if (!made || old.innerHTML === made.innerHTML) continue;
    if (old.contains(document.activeElement) && document.activeElement !== document.body) continue;
    const known = keysOf(old), added = [...keysOf(made)].filter((key) => !known.has(key)).length;
    if (added && !pressed && scrollY > 160) { const news = $("#news"); news.hidden = false; news.textContent = `${added} new`; continue; }
    const open = all("details[open]", old).length;
    old.replaceWith(made);
    if (open) all("details", made).forEach((one) => { one.open = true; });
  }
  const badge = $("nav a[data-page=now]"), now = fresh.querySelector("nav a[data-page=now]");
  if (badge && now && badge.innerHTML !== now.innerHTML) badge.innerHTML = now.innerHTML;
}
$("#news")?.addEventListener("click", () => { $("#news").hidden = true; scrollTo(0, 0); redraw(true); });
const every = Number(page.poll || page.retry || 0);
if (every) setInterval(async () => {
  if (document.hidden) return;
  if (!page.retry) return redraw();
  const answer = await fetch(location.href, { method: "GET" }).catch(() => null);
  if (answer?.ok) location.reload();
}, every * 1000);

// the output: what is added comes by the byte; the end is followed until somebody scrolls up
const log = $("#log ol");
let line = Number(page.line || 0), unfinished = null;
const follow = $("#follow");
const follows = () => follow?.getAttribute("aria-pressed") === "true";
const fresh = $("#fresh");
let unread = 0;
const toEnd = () => { if (log && follows()) log.scrollTop = log.scrollHeight; };
function read(more) {
  unread = follows() ? 0 : unread + more;
  if (fresh) { fresh.hidden = !unread; fresh.textContent = `${unread.toLocaleString("en-US")} new`; }
}
function add(lines, lost) {
  if (!log) return;
  $("#log-empty")?.remove();
  if (lost) { const gap = document.createElement("li"); gap.textContent = "… output in between is no longer kept …"; log.append(gap); }
  for (const [text, whole] of lines) {
    if (unfinished) unfinished.textContent += text;
    else {
      line += 1;
      const row = document.createElement("li"), number = document.createElement("a"), body = document.createElement("span");
      row.id = `L${line}`; number.className = "n"; number.href = `#L${line}`; number.textContent = line;
      body.className = "x"; body.textContent = text;
      if (text.startsWith("nightlatch: ")) row.className = "own";
      row.append(number, body); log.append(row);
      unfinished = body;
    }
    if (whole) unfinished = null;
  }
  while (log.children.length > 5000) log.firstElementChild.remove();
  const count = $("#log-count");
  if (count) count.textContent = line.toLocaleString("en-US");
  read(lines.length);
  toEnd();
}
let stream = null, place = page.place || "", due = 0;
function listen() {
  if (!page.events || stream || document.hidden) return;
  stream = new EventSource(`${page.events}?from=${encodeURIComponent(place)}`);
  stream.addEventListener("open", () => reached(true));
  stream.addEventListener("output", (event) => { place = event.lastEventId; const { lines, lost } = JSON.parse(event.data); add(lines, lost); });
  stream.addEventListener("changed", () => { if (!due) due = setTimeout(() => { due = 0; redraw(); }, 400); });
  stream.addEventListener("over", () => { hang(); delete page.events; redraw(); });
  stream.addEventListener("error", () => {
    reached(false);
    if (stream?.readyState === EventSource.CLOSED) { hang(); setTimeout(listen, 2000); }
  });
}
function hang() { stream?.close(); stream = null; }
// a browser has six connections for a host: a tab that nobody sees lets go of its own
document.addEventListener("visibilitychange", () => { if (document.hidden) hang(); else { listen(); if (every && !page.retry) redraw(); } });
addEventListener("pagehide", hang);
if (log) {
  toEnd();
  log.addEventListener("scroll", () => { follow?.setAttribute("aria-pressed", String(log.scrollTop + log.clientHeight > log.scrollHeight - 24)); read(0); }, { passive: true });
  follow?.addEventListener("click", () => { follow.setAttribute("aria-pressed", String(!follows())); read(0); toEnd(); });
  fresh?.addEventListener("click", () => { if (!follows()) follow.click(); });
}
listen();
