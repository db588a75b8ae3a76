"""A client of the server that counts, which starts quickly.

python counting_client.py post PORT ID     do it: exit 0 after the server said so, 56 when the reply did not come
python counting_client.py probe PORT ID    was it done? exit 0 yes, 1 no, 2 not known
"""

from __future__ import annotations

import os
import socket
import sys

DROPPED = 56  # as curl says it


def main() -> int:
    word, port, name = sys.argv[1:]
    verb = "POST" if word == "post" else "GET"
    key = os.environ.get("NIGHTLATCH_IDEMPOTENCY_KEY", "")
    try:
        with socket.create_connection(("127.0.0.1", int(port)), timeout=30) as line:
            line.sendall(f"{verb} /{name} HTTP/1.0\r\nIdempotency-Key: {key}\r\nContent-Length: 0\r\n\r\n".encode())
            status = line.makefile("rb").readline().split()[1:2]
    except OSError:
        status = []
    if word == "post":
        return 0 if status == [b"200"] else DROPPED
    return {b"200": 0, b"404": 1}.get(status[0] if status else b"", 2)


if __name__ == "__main__":
    sys.exit(main())
