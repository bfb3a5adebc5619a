# SPDX-License-Identifier: GPL-2.0-or-later
"""Starts the soft host without the time that Python takes to import it, some hundred times: a
process that has it all forks for each trigger. `python -I -S launcher.py SOCKET ARGUMENTS…` is the
trigger's side, which imports next to nothing.
"""

import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence

Main = Callable[[Sequence[str]], int]


def serve(path: str, run: Main) -> int:
    """Fork the process that forks; `run` is called in each. Returns its process ID."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    server = os.fork()
    if server:
        listener.close()
        return server
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        client, _ = listener.accept()
        if not os.fork():
            listener.close()
            _serve(client, run)


def _serve(client: socket.socket, run: Main) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    code = 70
    try:
        request, descriptors, _, _ = socket.recv_fds(client, 1 << 16, 2)
        client.sendall(f"{os.getpid()}\n".encode())
        asked = json.loads(request)
        os.environ.clear()
        os.environ.update(asked["environment"])
        for number, descriptor in enumerate(descriptors, 1):
            os.dup2(descriptor, number)
        code = run(asked["arguments"])
        sys.stderr.flush()
    finally:
        client.sendall(f"{code}\n".encode())
        os._exit(0)


def trigger(path: str, *arguments: str) -> int:
    """The exit code of a run; SIGTERM is passed on."""
    server = socket.socket(socket.AF_UNIX)
    server.connect(path)
    socket.send_fds(server, [json.dumps({
        "arguments": arguments, "environment": dict(os.environ)}).encode()], [1, 2])
    answers = server.makefile()
    process = int(answers.readline())
    signal.signal(signal.SIGTERM, lambda *_: os.kill(process, signal.SIGTERM))
    return int(answers.readline())


if __name__ == "__main__":
    sys.exit(trigger(*sys.argv[1:]))
