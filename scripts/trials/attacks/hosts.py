"""Attacks on a run over several hosts from one of them: a lying host, curious users on a host, and strangers."""
import json
import os
import pathlib
import re
import socket
import time

from runs import free_port

SSH = """#!/bin/sh
# A substitute for ssh: records its own command line, and runs the command here.
echo "$*" >> {folder}/commands
{lie}exec /bin/sh -c "$2"
"""
LIE = """if [ "$1" = gpu-b ]; then printf '[0]: loss 0.000\\n\\033[2J\\033]0;owned\\007\\233\\n'; fi
"""


def run_on_hosts(bench, program: list[str], lie: str = "", **more):
    ssh = bench.folder / "ssh"
    ssh.write_text(SSH.format(folder=bench.folder, lie=lie))
    ssh.chmod(0o700)
    words = ["run", "--hosts", "gpu-a,gpu-b", "--ssh", ssh, "--master-addr", "localhost", "--", *program]
    return bench.lockstep(*words, **more)


def variables_are_on_no_command_line(bench) -> None:
    value = "sesame \\n 'two'\nlines"
    show = bench.folder / "show.py"
    show.write_text("import os\nprint(repr(os.environ['NCCL_NOTE']), os.environ['TORCH_NOTE'])\n")
    ended = run_on_hosts(bench, ["python3", str(show)], env={"NCCL_NOTE": value, "TORCH_NOTE": "sesame"})
    assert ended.returncode == 0 and repr(value) in ended.stdout, ended.told()
    commands = (bench.folder / "commands").read_text()
    assert commands.count("--orders-on-input") == 2 and "sesame" not in commands and "NCCL" not in commands, commands


def a_host_speaks_for_itself_alone(bench) -> None:
    ended = run_on_hosts(bench, ["echo", "true words"], lie=LIE)
    assert ended.returncode == 0 and "gpu-a: [0]: true words" in ended.stdout, ended.told()
    assert "gpu-b: [0]: loss 0.000" in ended.stdout, ended.told()
    assert not re.search(r"^\[0\]: ", ended.text, re.M), ended.told()
    bench.clean(ended)


def empty_words_start_nothing(bench) -> None:
    token = bench.folder / "token"
    for option in ["--hosts", "--hostfile", "--ssh", "--token-file", "--tls-cert", "--master-addr", "--log-dir"]:
        bench.refused(bench.lockstep("run", option, "", "--", "touch", token), "is empty", 64)
    for option in ["--token-file", "--tls-cert", "--master-addr", "--nnodes", "--set"]:
        bench.refused(bench.lockstep("train", "captcha:digits", option, "", "--run-dir", token), "is empty", 64)
    assert not token.exists()


def the_list_of_variables_has_no_secret(bench) -> None:
    env = {"SLURM_JWT": "sesame", "SLURM_JOB_ID": "7", "TORCH_HOME": "https://me:sesame@host/?key=sesame",
           "LOCKSTEP_TOKEN": "sesame-sesame-sesame", "NCCL_PASSWORD": "sesame", "CUDA_API_KEY": "sesame"}
    ended = bench.lockstep("inspect", "env", env=env)
    assert ended.returncode == 0 and "SLURM_JWT" in ended.text and "sesame" not in ended.text, ended.told()


def ports_of(process: int) -> list[int]:
    """The addresses on which a process's descendants listen."""
    wanted, family = set(), {process}
    for entry in sorted(pathlib.Path("/proc").iterdir()):
        try:
            if entry.name.isdigit() and int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1]) in family:
                family.add(int(entry.name))
                for link in (entry / "fd").iterdir():
                    wanted.add(os.readlink(link))
        except OSError:
            continue
    lines = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [int(words[1].split(":")[1], 16) for words in lines if words[3] == "0A" and f"socket:[{words[9]}]" in wanted]


def silent_strangers_do_not_slow_the_doctor(bench) -> None:
    port = free_port()
    launchers, strangers = [], []
    try:
        for node in range(4):  # three rounds, with strangers in between
            words = ["lockstep", "run", "--nnodes", 4, "--node-rank", node, "--master-addr", "127.0.0.1", "--master-port",
                     port, "--", bench.program("lockstep"), "doctor", "--json"]
            env = {"LOCKSTEP_TOKEN": "sesame-sesame-sesame", "LOCKSTEP_HOST_ID": f"host-{node}"}
            launchers.append(bench.start(words, env=env, stdout=open(bench.folder / f"out{node}", "wb"),
                                         stderr=open(bench.folder / f"err{node}", "wb")))
        started = time.monotonic()
        seen = set()
        while any(each.poll() is None for each in launchers) and time.monotonic() - started < 60:
            for found in {found for each in launchers for found in ports_of(each.pid)} - {port} - seen:
                seen.add(found)
                strangers += [socket.create_connection(("127.0.0.1", found)) for _ in range(20)]
        seconds = time.monotonic() - started
    finally:
        for each in launchers:
            each.kill()
            each.wait()
        for stranger in strangers:
            stranger.close()
    told = (bench.folder / "out0").read_text() + (bench.folder / "err0").read_text()
    assert '"link"' in told and "gbit_per_s" in told, f"{told}\n{len(seen)} ports"
    assert seconds < 15, f"{seconds:.0f} s with {len(strangers)} strangers at {len(seen)} ports: {told}"


def rings_of_strangers_hang_nothing(bench) -> None:
    """A run folder from another user: its rings are pipes, links, sparse files, and lies."""
    kinds = {"pipe": os.mkfifo, "zero": lambda path: os.symlink("/dev/zero", path),
             "secret": lambda path: os.symlink("/etc/passwd", path), "sparse": sparse,
             "noise": lambda path: pathlib.Path(path).write_bytes(os.urandom(400_000)),
             "named": name_like_memory}
    for kind, make in kinds.items():
        run = bench.folder / kind
        rank = run / "logs" / "attempt_0" / "rank-0"
        rank.mkdir(parents=True)
        (run / "log.jsonl").write_text(json.dumps({"event": "epoch", "epoch": 1}) + "\n")
        make(str(rank / "flight.ring"))
        for words in (["doctor", run], ["inspect", "flight", run]):
            ended = bench.lockstep(*words, timeout=20)
            assert ended.returncode >= 0 and ended.returncode != 70, f"{kind}: {ended.told()}"
            assert ended.peak_bytes < 600e6 and "root:" not in ended.text, f"{kind}: {ended.peak_bytes} {ended.told()}"
            bench.clean(ended)


def sparse(path: str) -> None:
    with open(path, "wb") as file:
        file.truncate(8 << 30)


def name_like_memory(path: str) -> None:
    """A link, named like a launcher's memory, to a link to a pipe."""
    folder = os.path.dirname(path)
    os.mkfifo(os.path.join(folder, "memfd:lockstep-flight"))
    os.symlink("memfd:lockstep-flight", os.path.join(folder, "middle"))
    os.symlink(os.path.join(folder, "middle"), path)


TRIALS = [
    ("hosts", variables_are_on_no_command_line, 1),
    ("hosts", a_host_speaks_for_itself_alone, 1),
    ("hosts", empty_words_start_nothing, 1),
    ("hosts", the_list_of_variables_has_no_secret, 1),
    ("hosts", silent_strangers_do_not_slow_the_doctor, 1),
    ("rings", rings_of_strangers_hang_nothing, 1),
]
