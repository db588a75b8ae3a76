"""The plain API of the vendor of agents, for the provider `command`: `plain_agent.py launch|poll|cancel|find`."""

from __future__ import annotations

import json
import os
import sys
import urllib.request


def call(path: str, body: object = None) -> str:
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(f"{os.environ['VENDOR']}/plain{path}", data, timeout=20) as reply:
        return str(reply.read().decode())


def main(verb: str) -> None:
    handle = os.environ["NIGHTLATCH_HANDLE"]
    ask = json.load(sys.stdin)
    if verb == "launch":
        print(json.dumps({"handle": json.loads(call("", ask))["id"]}))
    elif verb == "find":
        print(call("/find", ask))
    else:
        print(call(f"/{handle}" + ("/cancel" if verb == "cancel" else ""), {} if verb == "cancel" else None))


if __name__ == "__main__":
    main(sys.argv[1])
