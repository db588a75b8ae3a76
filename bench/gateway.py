"""What the gateway adds to a call, beside a bare aiohttp proxy, nginx (if it is installed) and LiteLLM.

All pass on to the same vendor, which answers at once; one client calls each in turns. What counts is what is added to a
direct call. LiteLLM has an environment of its own, made here at the first time: it brings many packages.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.support.budgets import gateways

from . import peers, timing

LITELLM = os.environ.get("BENCH_LITELLM", "litellm[proxy]==1.106.2")
LITELLM_KEY = f"sk-{secrets.token_hex(32)}"  # of its own: it does not start without one
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "15"))
_HERE = Path(__file__).parent


def run() -> None:
    with ExitStack() as stack, tempfile.TemporaryDirectory(prefix="nightlatch-bench-") as folder:
        vendor, bare = _port(), _port()
        stack.enter_context(_server([sys.executable, "-m", "bench.gateway_upstream", str(vendor)], vendor))
        base = f"http://127.0.0.1:{vendor}"
        stack.enter_context(_server([sys.executable, "-m", "bench.gateway_upstream", str(bare), base], bare))
        places = {"direct": base, "bare aiohttp": f"http://127.0.0.1:{bare}"}
        if shutil.which("nginx"):
            places["nginx"] = stack.enter_context(_nginx(Path(folder), vendor))
        else:
            print("\nnginx is not installed (apt install nginx-light): not compared")
        if LITELLM:
            places["litellm"] = stack.enter_context(_litellm(Path(folder), base))
        _calls(places, folder, base)
        _starts(folder, base)


def _calls(places: dict[str, str], folder: str, base: str) -> None:
    out = f"{folder}/found.json"
    words = [f"{name}={url}/v1/messages" for name, url in places.items()]
    env = timing.environment() | {
        "NIGHTLATCH_STORE": f"sqlite:///{folder}/store/nightlatch.db",
        "ANTHROPIC_API_KEY": "sk-ant-bench-0123456789",
        "ANTHROPIC_BASE_URL": base,
        "PYTHONPATH": str(_HERE.parent),
        "BENCH_LITELLM_KEY": LITELLM_KEY,
    }
    command = [sys.executable, "-m", "nightlatch", "run", "bench", "--budget", "usd=100000", "--timeout", "2h", "--",
               sys.executable, "-m", "bench.gateway_client", out, *words]  # fmt: skip
    running = subprocess.Popen(command, env=env, cwd=_HERE.parent, stderr=subprocess.DEVNULL)
    most = 0
    while running.poll() is None:
        for pid in gateways(running.pid):
            try:
                status = Path(f"/proc/{pid}/status").read_text()
            except OSError:
                continue
            most = max(most, *(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")))
        time.sleep(0.2)
    with open(out, encoding="utf-8") as file:
        found = json.load(file)
    for what, turns in found.items():
        times = {name: statistics.median(some) for name, some in turns.items()}
        direct = times["direct"]
        low, _, high = (turn / direct for turn in statistics.quantiles(turns["direct"], n=4))
        added = {name: seconds - direct for name, seconds in times.items() if name != "direct"}
        print(f"\nadded to a call: {what} (goal: 2 × bare aiohttp, 1/8 of litellm)")
        spread = f"half of its turns: {low:.2f} to {high:.2f} of that (far from 1: the machine was busy)"
        print(f"  a direct call takes  {direct * 1000:9.3f} ms   {spread}")
        for name, seconds in added.items():
            compared = name != "gateway" and seconds > 0  # nginx adds less than the direct call varies
            part = f"   {added['gateway'] / seconds:6.2f} × is the gateway's" if compared else ""
            print(f"  {name:<20} {seconds * 1000:9.3f} ms{part}")
    print(f"\nthe gateway's memory: {most / 1024:.0f} MB (goal: under 80)")


def _starts(folder: str, base: str) -> None:
    env = timing.environment() | {
        "NIGHTLATCH_STORE": f"sqlite:///{folder}/starts/nightlatch.db",
        "ANTHROPIC_BASE_URL": base,
        "PYTHONPATH": str(_HERE.parent),
    }
    begin = [sys.executable, "-m", "nightlatch", "run", "bench"]
    tell = [sys.executable, "-S", "-c", "import time, sys; open(sys.argv[1], 'w').write(repr(time.time()))"]
    out = f"{folder}/began"

    def began(*options: str) -> float:
        started = time.time()
        subprocess.run([*begin, *options, "--", *tell, out], env=env, stderr=subprocess.DEVNULL, check=True)
        return float(Path(out).read_text()) - started

    rows = timing.in_turns({"without a cap": began, "with --budget": lambda: began("--budget", "usd=5")}, ROUNDS)
    timing.show(f"until the command is at work, median of {ROUNDS} (goal: 30 ms more)", rows, "without a cap")
    whole = timing.in_turns(
        {
            "without a cap": lambda: timing.command([*begin, "--", "true"], env),
            "with --budget": lambda: timing.command([*begin, "--budget", "usd=5", "--", "true"], env),
        },
        ROUNDS,
    )
    timing.show("a whole run of `true`", whole, "without a cap")


@contextmanager
def _server(argv: list[str], port: int, within: float = 20.0, **env: str) -> Iterator[None]:
    log = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
    process = subprocess.Popen(argv, cwd=_HERE.parent, env=timing.environment() | env, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + within
        while socket.socket().connect_ex(("127.0.0.1", port)):
            if process.poll() is not None or time.monotonic() > deadline:
                log.seek(0)
                raise RuntimeError(f"{argv[0]} does not listen: {log.read()[-2000:].decode()}")
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait(20)


@contextmanager
def _nginx(folder: Path, vendor: int) -> Iterator[str]:
    port = _port()
    config = folder / "nginx.conf"
    config.write_text(
        f"""
        daemon off; master_process off; pid {folder}/nginx.pid; error_log stderr; events {{}}
        http {{
          access_log off; client_max_body_size 64m; client_body_buffer_size 1m;
          upstream vendor {{ server 127.0.0.1:{vendor}; keepalive 64; }}
          server {{
            listen 127.0.0.1:{port};
            location / {{
              proxy_pass http://vendor; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;
            }}
          }}
        }}
        """
    )
    with _server(["nginx", "-c", str(config), "-p", str(folder)], port):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def _litellm(folder: Path, base: str) -> Iterator[str]:
    port, python = _port(), peers.environment("litellm", [LITELLM])
    config = folder / "litellm.yaml"
    config.write_text(
        json.dumps(
            {
                "model_list": [
                    {
                        "model_name": "claude-opus-5-5",
                        "litellm_params": {"model": "anthropic/claude-opus-5-5", "api_base": base, "api_key": "sk-x"},
                    }
                ]
            }
        )
    )
    argv = [str(Path(python).parent / "litellm"), "--config", str(config), "--port", str(port), "--host", "127.0.0.1"]
    more = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MASTER_KEY": LITELLM_KEY, "HOME": str(folder)}
    with _server(argv, port, within=180.0, **more):
        yield f"http://127.0.0.1:{port}"


def _port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
