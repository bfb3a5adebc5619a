# SPDX-License-Identifier: GPL-2.0-or-later
"""`nvmptcp-lab run`: output, exit codes, what the guest may touch, and how runs end badly."""

import os
import pty
import select
import signal
import subprocess
import time
from pathlib import Path

import pytest
from lab_helpers import COMMAND, Lab, heed_interrupts, leftover_processes, one_line_error
from nvmptcp_lab import reproduce
from nvmptcp_lab.build import ensure_kernel


def test_output_and_exit_code_pass_through(lab: Lab) -> None:
    done = lab("run", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, "out\n", "err\n")


def test_output_is_not_changed_on_its_way(lab: Lab, tmp_path: Path) -> None:
    data = bytes(range(256)) * 200
    (tmp_path / "data").write_bytes(data)
    done = subprocess.run([*COMMAND, "run", "--", "cat", "data"], cwd=tmp_path,
                          capture_output=True, timeout=60)
    assert done.stdout == data


def test_guest_cannot_change_the_users_files(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("before")
    attack = (
        "echo after >mine; rm -f mine; mkdir -p /run/h; mount -t hostfs none /run/h -o /;"
        f" echo after >/run/h{tmp_path}/mine; touch /run/h{tmp_path}/new; echo done"
    )
    done = lab("run", "--", "sh", "-c", attack)
    assert done.stdout == "done\n"
    kept = [path.name for path in tmp_path.iterdir() if not path.name.endswith(".lock")]
    assert kept == ["mine"]
    assert (tmp_path / "mine").read_text() == "before"


def test_writable_directory_is_the_users_own(lab: Lab, tmp_path: Path) -> None:
    done = lab("run", "--writable", "out", "--", "sh", "-c", "echo kept >out/file")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "file").read_text() == "kept\n"


def test_idle_time_costs_nothing(lab: Lab) -> None:
    """An hour of the guest's clock: impossible for a guest in real time before the time-out."""
    done = lab("run", "--topology", "none", "--timeout", 60, "--", "sh", "-c",
               "sleep 3600; cut -d. -f1 /proc/uptime")
    assert int(done.stdout) >= 3600


def test_real_time_is_real(lab: Lab) -> None:
    begin = time.monotonic()
    done = lab("run", "--real-time", "--topology", "none", "--", "sleep", 2)
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - begin >= 2


def test_namespaces(lab: Lab) -> None:
    done = lab("run", "--netns", "host", "--", "sh", "-c",
               "ip netns identify $$; on target ip netns identify $$;"
               " ls -d /sys/kernel/config/nvmet")
    # `on` enters a namespace and keeps configfs in sight, unlike `ip netns exec`.
    assert done.stdout.split() == ["host", "host", "/sys/kernel/config/nvmet"]
    addresses = lab("run", "--", "on", "target", "ip", "-br", "-4", "address")
    assert [f"10.0.{path}.2/24" in addresses.stdout for path in range(1, 5)] == [True] * 4


def test_kernel_complaint_fails_a_run_that_exits_0(lab: Lab) -> None:
    done = lab("run", "--", "sh", "-c", "echo 'WARNING: from the test' >/dev/kmsg; exit 0")
    assert done.returncode == 1
    assert "the guest kernel complained" in one_line_error(done)
    assert "WARNING: from the test" in done.stderr


def test_kernel_panic(lab: Lab, tmp_path: Path) -> None:
    done = lab("run", "--memory", "128M", "--topology", "none", "--timeout", 120, "--", "sh", "-c",
               "echo 2 >/proc/sys/vm/panic_on_oom; tail /dev/zero")
    assert done.returncode == 1
    assert "the guest kernel died" in one_line_error(done)
    assert "Kernel panic" in done.stderr
    assert leftover_processes(tmp_path) == []


def test_hang_ends_at_the_time_out(lab: Lab, tmp_path: Path) -> None:
    done = lab("run", "--timeout", 3, "--", "sh", "-c", "while :; do :; done")
    assert done.returncode == 124
    assert "no end after 3 s (--timeout)" in one_line_error(done)
    assert leftover_processes(tmp_path) == []


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_outlives_the_lab(lab: Lab, tmp_path: Path, signum: int) -> None:
    process = subprocess.Popen([*COMMAND, "run", "--", "sh", "-c", "echo up; sleep 1e9"],
                               cwd=tmp_path, env={**os.environ, "TMPDIR": str(tmp_path)},
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               preexec_fn=heed_interrupts)
    assert process.stdout
    assert process.stdout.readline() == b"up\n"
    process.send_signal(signum)
    process.wait(30)
    assert leftover_processes(tmp_path) == []
    if signum != signal.SIGKILL:
        assert process.returncode == 128 + signum
        assert [path for path in tmp_path.iterdir() if path.is_dir()] == []


def test_full_disk_for_the_runs_own_files(lab: Lab, tmp_path: Path) -> None:
    """TMPDIR on a file system without room, in a mount namespace of this test's own."""
    script = ('mount -t tmpfs -o size=8k tmpfs "$1" && head -c 4k /dev/zero >"$1/full";'
              ' shift; exec "$@"')
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script, "sh", tmp_path, *COMMAND, "run", "true"],
        env={**os.environ, "TMPDIR": str(tmp_path)}, cwd="/", capture_output=True, text=True)
    assert done.returncode == 1
    assert "No space left on device" in one_line_error(done)
    assert leftover_processes(tmp_path) == []


def test_two_labs_side_by_side(lab: Lab, tmp_path: Path) -> None:
    script = "hostname lab$0; sleep 100; hostname; ip -n host -br link | wc -l"
    processes = [
        subprocess.Popen([*COMMAND, "run", "--", "sh", "-c", script, str(number)], cwd=tmp_path,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for number in (1, 2)
    ]
    for number, process in enumerate(processes, 1):
        out, err = process.communicate(timeout=120)
        assert (process.returncode, out.split()) == (0, [f"lab{number}", "5"]), err


def test_capture_writes_a_file_an_interface(lab: Lab, tmp_path: Path) -> None:
    listen = "import socket as s; l=s.create_server(('10.0.2.2',9)); l.accept()[0].recv(9)"
    connect = "import socket as s; s.create_connection(('10.0.2.2',9)).send(b'hello')"
    script = (f'on target /usr/bin/python3 -c "{listen}" & sleep 1;'
              f' on host /usr/bin/python3 -c "{connect}"; wait')
    done = lab("run", "--capture", "captures", "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    names = sorted(path.name for path in (tmp_path / "captures").iterdir())
    assert names == sorted(f"{netns}-path{path}.pcapng" for netns in ("host", "target")
                           for path in range(1, 5))

    def packets(name: str) -> int:
        out = subprocess.run(["tshark", "-r", tmp_path / "captures" / name, "-Y", "tcp.port == 9"],
                             capture_output=True, text=True, check=True).stdout
        return len(out.splitlines())

    assert packets("host-path2.pcapng") == packets("target-path2.pcapng") >= 6
    assert packets("host-path1.pcapng") == packets("target-path3.pcapng") == 0


def test_debug_profile_finds_nothing_in_both_variants(lab: Lab) -> None:
    """KASAN, lockdep and the like watch discovery, connections and their end."""
    found = reproduce.check_discovery(ensure_kernel("debug"))
    assert found["ok"], found


def test_shell_prompt_names_the_namespace(lab: Lab, tmp_path: Path) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ |= {"TERM": "dumb", "TMPDIR": str(tmp_path)}
        os.execvp(COMMAND[0], [*COMMAND, "shell", "--timeout", "60"])
    seen = b""

    def wait_for(words: bytes) -> None:
        nonlocal seen
        end = time.monotonic() + 50
        while words not in seen:
            assert time.monotonic() < end, seen
            if select.select([terminal], [], [], 1)[0]:
                seen += os.read(terminal, 4096)
        seen = seen.partition(words)[2]

    wait_for(b"[\x1b[1mlab\x1b[0m]")
    os.write(terminal, b"on target\r")
    wait_for(b"[\x1b[1mtarget\x1b[0m]")
    os.write(terminal, b"exit\r")
    wait_for(b"[\x1b[1mlab\x1b[0m]")
    os.write(terminal, b"exit 5\r")
    status = os.waitpid(pid, 0)[1]
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 5
    assert leftover_processes(tmp_path) == []


def test_shell_without_a_terminal(lab: Lab) -> None:
    done = lab("shell")
    assert done.returncode == 2
    assert "not a terminal" in one_line_error(done)


@pytest.mark.parametrize(("arguments", "words"), [
    (["run", "--topology", "nowhere.toml", "true"], "--topology nowhere.toml: no such file"),
    (["run", "--writable", "/proc/none", "true"], "--writable /proc/none"),
    (["run", "--module-option", "nvme_core", "true"], "write MODULE.NAME=VALUE"),
    (["run", "--timeout", "0", "true"], "must be above 0"),
    (["run"], "COMMAND"),
])
def test_bad_options(lab: Lab, arguments: list[str], words: str) -> None:
    done = lab(*arguments)
    assert done.returncode == 2
    assert words in one_line_error(done)
