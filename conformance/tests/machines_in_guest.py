# SPDX-License-Identifier: GPL-2.0-or-later
"""Two namespaces of a guest stand in for two machines, each with an SSH server of its own.

`python machines_in_guest.py DIRECTORY COMMAND…`, in the guest: starts them and runs the command in
the host's namespace, in DIRECTORY, where `client` and `storage` are names that ssh(1) knows. It
leaves DIRECTORY/left.json: what is there of the target and of connections when all is over.
"""

import json
import pwd
import subprocess
import sys
from pathlib import Path

SSH = Path(pwd.getpwuid(0).pw_dir) / ".ssh"
SERVER = Path("/tmp/ssh-server")
NAMES = {"client": "127.0.0.1", "storage": "10.0.1.2"}

# What a login runs: real machines have no such variable, but they have real time, too.
LOGIN = """\
#!/bin/sh
export NVMPTCP_VIRTUAL_TIME=1
exec sh -c "$SSH_ORIGINAL_COMMAND"
"""
CLIENT = f"""\
UserKnownHostsFile /dev/null
StrictHostKeyChecking no
LogLevel ERROR
IdentityFile {SERVER}/user-key
"""


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


def start() -> None:
    """A server in each namespace, and what the client has to know."""
    for directory in (SSH, SERVER):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    _run("dropbearkey", "-t", "ed25519", "-f", f"{SERVER}/host-key")
    _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{SERVER}/user-key")
    (SERVER / "login").write_text(LOGIN)
    (SERVER / "login").chmod(0o755)
    (SSH / "authorized_keys").write_text(
        f'command="{SERVER}/login" ' + (SERVER / "user-key.pub").read_text())
    (SSH / "config").write_text(CLIENT + "".join(
        f"Host {name}\n  HostName {address}\n" for name, address in NAMES.items()))
    for netns in ("host", "target"):
        _run("nsenter", f"--net=/run/netns/{netns}", "dropbear", "-s", "-r", f"{SERVER}/host-key",
             "-P", f"{SERVER}/{netns}.pid")


def left() -> dict[str, list[str]]:
    """Subsystems and ports of the target, controllers of the host, files in /tmp."""
    places = {"subsystems": "/sys/kernel/config/nvmet/subsystems",
              "ports": "/sys/kernel/config/nvmet/ports", "null_blk": "/sys/kernel/config/nullb",
              "controllers": "/sys/class/nvme"}
    found = {name: [entry.name for entry in Path(place).iterdir() if entry.is_dir()]
             for name, place in places.items()}
    return {**found, "tmp": [entry.name for entry in Path("/tmp").glob("nvmptcp-??????")
                             if (entry / "nvmptcp_lab").exists()]}


def main() -> int:
    directory, command = Path(sys.argv[1]), sys.argv[2:]
    start()
    if (directory / "before").exists():  # what a test wants to be there already
        _run("sh", "-e", str(directory / "before"))
    done = subprocess.run(["nsenter", "--net=/run/netns/host", *command], cwd=directory,
                          stdin=subprocess.DEVNULL)
    (directory / "left.json").write_text(json.dumps(left()))
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
