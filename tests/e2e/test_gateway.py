"""A run with a budget: its calls to models go through the gateway, and what they cost never passes it."""

from __future__ import annotations

import json
import os
import sys

import pytest

from tests.support.budgets import gateways, spent
from tests.support.programs import TOOL, midday, nightlatch, start, until
from tests.support.runs import listed
from tests.support.vendor import Plan, Vendor

ANTHROPIC = """
import anthropic, sys
client = anthropic.Anthropic()
for _ in range(int(sys.argv[1])):
    ask = dict(model="claude-opus-5-5", max_tokens=2000, messages=[{"role": "user", "content": "Say good night"}])
    if sys.argv[2] == "json":
        message = client.messages.create(**ask)
    else:
        with client.messages.stream(**ask) as stream:
            message = stream.get_final_message()
    print(message.content[0].text, message.usage.output_tokens)
"""


@pytest.mark.parametrize(("store", "how"), [("sqlite_url", "json"), ("sqlite_url", "sse"), ("postgres_url", "json")])
def test_what_a_run_used_is_what_the_vendor_charged(request, store, how):
    url = request.getfixturevalue(store)
    with Vendor(plan=lambda _: Plan(input=100, output=300, cache_read=10, cache_write=7, cache_write_1h=5)) as vendor:
        done = nightlatch(url, "run", "night", "--budget", "usd=2", "--",
                          sys.executable, "-c", ANTHROPIC, "3", how, env=vendor.environment)  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("night night night") == 3
        found = spent(url, "night")
        assert found.usd == vendor.charged > 0
        assert (found.calls, found.doubt, found.held) == (3, 0, 0)


def test_a_call_that_the_budget_cannot_pay_is_refused_and_the_run_is_over_budget(sqlite_url):
    with Vendor(plan=lambda _: Plan(output=2000)) as vendor:
        done = nightlatch(sqlite_url, "run", "night", "--budget", "usd=0.2", "--",
                          sys.executable, "-c", ANTHROPIC, "50", "json", env=vendor.environment)  # fmt: skip
        assert done.returncode == 121, done.stderr
        assert "billing_error" in done.stderr + done.stdout
        found = spent(sqlite_url, "night")
        assert 0.2e9 * 0.9 <= vendor.charged == found.usd <= 0.2e9
        assert (found.status, found.held) == ("over-budget", 0)
        assert "the budget usd=0.2 is spent" in found.reason
        assert len([one for one in vendor.calls]) == found.calls  # a refusal stops the client: no call after it


TALK = """
import json, os, sys, urllib.error, urllib.request
def call(model="claude-opus-5-5", path="/v1/messages", base="ANTHROPIC_BASE_URL", **more):
    body = {"model": model, "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}], **more}
    headers = {"x-api-key": os.environ.get("ANTHROPIC_API_KEY", ""), "content-type": "application/json"}
    request = urllib.request.Request(os.environ[base] + path, json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)
"""


def talk(url, vendor, code, *options, timeout=120, **more):
    words = ["run", "night", *(options or ("--budget", "usd=2")), "--", sys.executable, "-c", TALK + code]
    return nightlatch(url, *words, env={**vendor.environment, **more}, timeout=timeout)


def test_what_cannot_be_metered_is_refused_and_named(sqlite_url):
    with Vendor() as vendor:
        done = talk(sqlite_url, vendor, 'print(call(path="/v1/messages/batches")); sys.exit(3)')
        assert done.returncode == 3 and "403" in done.stdout
        assert "cannot be metered" in done.stderr
        assert not vendor.calls and not vendor.others


def test_a_model_without_a_price_is_refused_with_the_line_to_add(sqlite_url, tmp_path):
    with Vendor() as vendor:
        done = talk(sqlite_url, vendor, 'print(call(model="my-model")); sys.exit(1)')
        assert done.returncode == 1 and "402" in done.stdout
        assert "no price is known for the model my-model: add [prices." in done.stderr
        assert not vendor.calls


def test_stated_prices_count_and_a_free_model_is_never_refused_for_money(sqlite_url, tmp_path):
    config = tmp_path / "nightlatch.toml"
    config.write_text('prices."my-model" = { input = 2, output = 10 }\nprices.free = { input = 0, output = 0 }\n')
    with Vendor(plan=lambda _: Plan(input=100, output=50), cost=lambda *_: 0) as vendor:
        code = 'print(call(model="my-model")[0]); print([call(model="free")[0] for _ in range(5)]); print(call(model="my-model")[0])'
        done = talk(sqlite_url, vendor, code, "--budget", "usd=0.0015", NIGHTLATCH_CONFIG=str(config))
        assert "200\n[200, 200, 200, 200, 200]\n" in done.stdout, done.stdout + done.stderr
        assert spent(sqlite_url, "night").usd == (100 * 2 + 50 * 10) * 1000


def test_an_opened_path_costs_its_price(sqlite_url, tmp_path):
    config = tmp_path / "nightlatch.toml"
    config.write_text('[gateway]\nallow = { "v1/audio/speech" = 0.05 }\n')
    with Vendor() as vendor:
        code = 'print([call(path="/v1/audio/speech")[0] for _ in range(2)])'
        done = talk(sqlite_url, vendor, code, "--budget", "usd=0.06", NIGHTLATCH_CONFIG=str(config))
        assert "[404, 404]" in done.stdout, done.stdout + done.stderr  # a 4xx costs nothing
        assert spent(sqlite_url, "night").usd == 0


def test_a_stale_run_key_gets_401(sqlite_url):
    with Vendor() as vendor:
        code = """
base = os.environ["ANTHROPIC_BASE_URL"]
os.environ["OLD"] = base.replace(base.split("/")[3], "0" * 40)
print(call(base="OLD")[0])
"""
        assert "401" in talk(sqlite_url, vendor, code).stdout
        assert not vendor.calls


def test_what_the_command_reports_is_noted_once_calls_are_metered(sqlite_url):
    with Vendor() as vendor:
        code = f"""
import subprocess
tool = {TOOL!r}
call()
subprocess.run(f"{{tool}} spend usd=0.5 units=3; {{tool}} spend --extra usd=0.25", shell=True, check=True)
"""
        done = talk(sqlite_url, vendor, code)
        assert done.returncode == 0, done.stderr
        assert spent(sqlite_url, "night").usd == vendor.charged + 250_000_000
        assert "units=3" in done.stderr


def test_a_person_raises_the_budget_of_a_running_run(sqlite_url, tmp_path):
    """A call that is refused is made again when there is more."""
    with Vendor(plan=lambda _: Plan(output=100)) as vendor:
        code = f"""
import time
came = [call()[0]]
while came[-1] == 200:
    came.append(call()[0])
open({str(tmp_path / "refused")!r}, "w").close()
while call(max_tokens=100)[0] != 200:
    time.sleep(0.2)
"""
        words = ["run", "night", "--budget", "usd=0.05", "--", sys.executable, "-c", TALK + code]
        running = start(sqlite_url, *words, env=vendor.environment)
        until(lambda: (tmp_path / "refused").exists() or running.poll() is not None)
        run = listed(sqlite_url, "--job", "night")[0]["run"]
        inside = nightlatch(sqlite_url, "budget", run, "usd=4", env={"NIGHTLATCH_RUN": run})
        assert inside.returncode == 77
        assert nightlatch(sqlite_url, "budget", run, "usd=4").returncode == 0
        out, err = running.communicate(timeout=60)
        assert running.returncode == 0, (out, err)
        found = spent(sqlite_url, "night")
        assert 0 < found.usd == vendor.charged


def test_a_killed_gateway_comes_back_behind_the_same_address(sqlite_url, tmp_path):
    with Vendor(plan=lambda call: Plan(delay=30.0 if call.number == 1 else 0.0)) as vendor:
        code = """
import threading
print(call()[0])
def lost():
    try: call()
    except Exception as error: print("lost", type(error).__name__)
thread = threading.Thread(target=lost); thread.start(); thread.join()
print(call()[0])
"""
        words = ["run", "night", "--budget", "usd=2", "--", sys.executable, "-c", TALK + code]
        running = start(sqlite_url, *words, env=vendor.environment)
        until(lambda: len(vendor.calls) == 2)
        (gateway,) = gateways(running.pid)
        os.kill(gateway, 9)
        out, err = running.communicate(timeout=60)
        assert (running.returncode, out.split()[0], out.split()[-1]) == (0, "200", "200"), (out, err)
        found = spent(sqlite_url, "night")
        assert found.calls == 3 and found.doubt > 0 and f"doubt={found.doubt / 10**9:g}" in err


def test_an_item_of_a_batch_has_a_cap_of_its_own(sqlite_url, tmp_path):
    items = tmp_path / "items"
    items.write_text("a\nb\n")
    with Vendor(plan=lambda _: Plan(output=100)) as vendor:
        code = TALK + "came = [call()[0] for _ in range(4)]; sys.exit(came != [200, 200, 402, 402])"
        done = nightlatch(sqlite_url, "batch", "night", str(items), "--budget", "calls/item=2,usd=2", "--",
                          sys.executable, "-c", code, env=vendor.environment)  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        assert len(vendor.calls) == 4 and spent(sqlite_url, "night").usd == vendor.charged


@pytest.mark.parametrize("store", ["sqlite_url", "postgres_url"])
def test_caps_of_a_day_are_shared_by_runs_at_once(request, store):
    """Four jobs under one cap for all jobs; one of them is killed with its gateway."""
    url = request.getfixturevalue(store)
    cap = 0.4
    with Vendor(plan=lambda _: Plan(output=1000, delay=0.05)) as vendor:
        code = TALK + "while call(max_tokens=1000)[0] == 200: pass"
        env = {**vendor.environment, **midday(), "NIGHTLATCH_BUDGET": f"usd/day={cap}"}
        running = [start(url, "run", f"job{n}", "--", sys.executable, "-c", code, env=env) for n in range(4)]
        until(lambda: len(vendor.calls) >= 6)
        for pid in (*gateways(running[0].pid), running[0].pid):
            os.kill(pid, 9)
        for one in running:
            one.communicate(timeout=100)
        until(lambda: not vendor.open)
        assert vendor.charged <= cap * 10**9
        held = 60_000_000  # at most what the killed one had in flight cannot be used
        assert vendor.charged >= 0.85 * cap * 10**9 - held
        refused = nightlatch(
            url, "run", "other", "--", sys.executable, "-c", TALK + "sys.exit(call(max_tokens=9000)[0])", env=env
        )
        assert refused.returncode in (121, 402 % 256)


def test_eight_subagents_at_once_share_a_cap_that_pays_for_twenty_calls(sqlite_url):
    with Vendor(plan=lambda _: Plan(input=20, output=1000, delay=0.05)) as vendor:
        one = 20 * 4_000 + 1000 * 20_000  # billionths
        bound = 100 * 4_000 + 1000 * 20_000  # by the vendor's count, at the dearest price
        code = """
from concurrent.futures import ThreadPoolExecutor
def agent(_):
    came = []
    while (status := call(max_tokens=1000)[0]) == 200:
        came.append(status)
    return len(came)
with ThreadPoolExecutor(8) as pool:
    print("answered", sum(pool.map(agent, range(8))))
"""
        cap = (19 * one + bound) / 10**9
        done = talk(sqlite_url, vendor, code, "--budget", f"usd={cap}")
        assert "answered 20" in done.stdout, done.stdout + done.stderr
        assert len(vendor.calls) == 20 and vendor.charged == 20 * one <= cap * 10**9


def test_nothing_leaks_from_calls_that_fail_before_they_are_charged(sqlite_url):
    calls = int(os.environ.get("NIGHTLATCH_LEAKS", "300"))
    with Vendor(plan=lambda call: Plan(fault=("refused", "overloaded")[call.number % 2])) as vendor:
        code = f"""
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(16) as pool:
    print(sorted(set(pool.map(lambda _: call(max_tokens=1000)[0], range({calls})))))
"""
        done = talk(sqlite_url, vendor, code, "--budget", "usd=0.3", timeout=1200)
        assert "[429, 529]" in done.stdout, done.stdout + done.stderr
        found = spent(sqlite_url, "night")
        assert (found.usd, found.doubt, found.held, len(vendor.calls)) == (0, 0, 0, calls)


def test_what_was_used_is_shown_by_model_subagent_and_kind(sqlite_url):
    with Vendor(plan=lambda _: Plan(input=100, output=300, cache_read=10)) as vendor:
        code = TALK.replace('"content-type"', '"x-claude-code-agent-id": os.environ["AGENT"], "content-type"')
        code += "os.environ['AGENT'] = 'a1'; call(); os.environ['AGENT'] = ''; call(); call(); sys.exit(call(max_tokens=10**9)[0] != 402)"
        done = nightlatch(sqlite_url, "run", "night", "--budget", "calls=3", "--", sys.executable, "-c", code,
                          env=vendor.environment)  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        rows = [
            json.loads(line)
            for line in nightlatch(sqlite_url, "usage", "--by", "agent,kind", "--json").stdout.splitlines()
        ]
        found = {(row["agent"], row["kind"]): (row["tokens"], row["calls"]) for row in rows}
        assert found == {
            ("a1", "input"): (90, 1), ("a1", "cache_read"): (10, 0), ("a1", "output"): (100, 0),
            ("", "input"): (180, 2), ("", "cache_read"): (20, 0), ("", "output"): (200, 0),
        }  # fmt: skip
        shown = nightlatch(sqlite_url, "show", "night").stdout
        assert "calls to models" in shown and "claude-opus-5-5" in shown and "cache_read" in shown
        assert "the budget calls=3 is spent" in shown
        assert nightlatch(sqlite_url, "audit", "verify").returncode == 0
        assert "genai-prices" in nightlatch(sqlite_url, "doctor").stdout


def test_an_outsider_spends_no_more_than_was_counted(sqlite_url):
    """Raw requests through a real gateway: what is answered is paid for, and the rest never reached the vendor."""
    code = """
import gzip, http.client, socket, urllib.parse
base = urllib.parse.urlsplit(os.environ["ANTHROPIC_BASE_URL"])
key = os.environ["ANTHROPIC_API_KEY"]
good = json.dumps({"model": "claude-opus-5-5", "max_tokens": 50, "messages": []}).encode()

def raw(data, *headers, method="POST", path="/v1/messages", body_in=1):
    connection = http.client.HTTPConnection(base.hostname, base.port, timeout=60)
    connection.putrequest(method, base.path + path)
    for name, text in (("x-api-key", key), *headers):
        connection.putheader(name, text)
    if body_in == 1:
        connection.putheader("Content-Length", str(len(data)))
        connection.endheaders(data)
    else:
        connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()
        step = max(len(data) // body_in, 1)
        for at in range(0, len(data), step):
            piece = data[at:at + step]
            connection.send(b"%x\\r\\n%s\\r\\n" % (len(piece), piece))
        connection.send(b"0\\r\\n\\r\\n")
    reply = connection.getresponse()
    reply.read()
    return reply.status

print(raw(good), raw(good, body_in=5), raw(gzip.compress(good), ("Content-Encoding", "gzip")),
      raw(good, ("Content-Type", "text/plain")))
print(raw(good[:-1] + b', "max_tokens": 100000}'), raw(good.replace(b"50", b'"50000"')), raw(good.replace(b"50", b"-1")),
      raw(b"--x\\r\\n" + good), raw(good, path="/v1/messages%2fbatches"), raw(good, path="/V1/messages"),
      raw(good, ("X-HTTP-Method-Override", "POST"), method="GET", path="/v1/files"),
      raw(b"", ("Upgrade", "websocket"), ("Connection", "Upgrade"), method="GET", path="/v1/messages"))
head = f"POST {base.path}/v1/messages HTTP/1.1\\r\\nHost: x\\r\\nx-api-key: {key}\\r\\nContent-Length: {len(good)}\\r\\n\\r\\n"
with socket.create_connection((base.hostname, base.port)) as pipelined:
    pipelined.sendall((head.encode() + good) * 3)
    came = b""
    while came.count(b"HTTP/1.1 200") < 3:
        came += pipelined.recv(1 << 16)
"""
    with Vendor(plan=lambda _: Plan(input=20, output=90_000)) as vendor:
        done = talk(sqlite_url, vendor, code, "--budget", "usd=0.05")
        assert done.stdout.splitlines() == ["200 200 200 200", "400 400 400 400 403 403 403 403"], (
            done.stdout + done.stderr
        )
        found = spent(sqlite_url, "night")
        assert len(vendor.calls) == found.calls == 7 and not vendor.others
        assert found.usd == vendor.charged <= 0.05e9 and (found.doubt, found.held) == (0, 0)
        assert {call.call.headers.get("content-encoding", "") for call in vendor.calls} == {""}
