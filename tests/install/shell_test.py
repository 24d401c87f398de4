#!/usr/bin/env python3
"""The build's files for the shell: man pages that groff reads without warnings, and completion for bash and zsh.

Exit code: 0 passed, 1 failed, 77 skipped: it names the missing tool."""
import argparse
import json
import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
# The words on the line, as readline splits them, and those that must (or with "!" must not) be offered.
CASES = [
    ("tr", "train"),
    ("", "run train generate tune"),
    ("--", "--help --version !--quiet"),
    ("checkpoint ", "inspect verify diff export import prune"),
    ("checkpoint d", "diff !inspect"),
    ("bench loader ", "captcha noop !step"),
    ("doctor ", "kernels folder"),
    ("doctor --", "--fast --json !--amp"),
    ("doctor kernels ", "captcha:conv3 folder notes.txt !kernels"),
    ("doctor kernels captcha --amp ", "none bf16"),
    ("train cap", "captcha captcha:digits captioning:smoke"),
    ("train captcha : di", "digits !captcha:digits"),
    ("train ", "detection:smoke tuned.yml folder !notes.txt"),
    ("eval ", "captcha !captcha:digits"),
    ("train --ba", "--backend"),
    ("train --backend ", "auto shm tcp nccl !gloo !captcha"),
    ("run --wire ", "auto tls plain ucx"),
    ("train captcha --backend = s", "shm"),
    ("train captcha --nproc-per-node ", "auto gpu"),
    ("train captcha --set opt", "optimizer.lr="),
    ("train detection --set ", "seed= num_classes="),
    ("train detection --set amp = b", "bf16"),
    ("train detection --set data.train = f", "folder"),
    ("train detection -u seed = 1 epo", "epochs="),
    ("train detection --run-dir ", "folder !notes.txt"),
    ("train detection --resume ", "auto none folder"),
    ("train detection --max-time ", "!auto !folder !notes.txt"),
    ("train detection ", "!captcha !folder"),
    ("predict captcha --checkpoint folder n", "notes.txt"),
    ("inspect data ", "captcha:digits notes.txt"),
    ("inspect env --q", "--quiet"),
    ("train captcha --resume ", "none auto folder"),
    ("bench optimizer --optimizer adamw l", "lamb lion !folder"),
    ("checkpoint export --state ", "model ema all !NAME"),
    ("pack --format ", "packed tar"),
    ("new --from ", "trainer loop"),
    ("new --folder ", "folder !notes.txt"),
    ("new ", "!folder !notes.txt"),
    ("run --nproc-per-node 2 -- py", "python3"),
    ("run --nproc-per-node 2 python3 ", "notes.txt !--quiet"),
]


def made(build, name):
    found = build / "shell" / name
    assert found.exists(), f"{found} is missing: is the target lockstep_shell built?"
    return found


def man_pages(build):
    """Each verb has a page with its --help text, and groff reads all of them without warnings."""
    if shutil.which("groff") is None:
        print("groff is not installed")
        sys.exit(77)
    folder = made(build, "man")
    pages = {page.stem: page.read_text() for page in folder.glob("*.1")}
    root = json.loads(made(build, "help.json").read_text())["--help"]
    verbs = re.findall(r"^  ([a-z-]+) {2,}", root, re.M)
    assert set(pages) == {"lockstep", "lockstep-worker", *(f"lockstep-{verb}" for verb in verbs)}, sorted(pages)
    for name, text in pages.items():
        if text.startswith(".so "):
            assert text == ".so man1/lockstep.1\n", text
            continue
        done = subprocess.run(["groff", "-man", "-Tascii", "-ww", "-P-cbou"], input=text, text=True,
                              capture_output=True, check=True)
        assert not done.stderr, f"{name}: {done.stderr}"
        pages[name] = done.stdout
        for title in ("NAME", "SYNOPSIS", "DESCRIPTION", "SEE ALSO"):
            assert re.search(rf"^{title}$", done.stdout, re.M), f"{name} has no {title}"
    for word in ("EXAMPLES", "--nproc-per-node", "RECIPE:PRESET", "auto is the newest valid checkpoint", "scenes, smoke"):
        assert word in re.sub(r"\s+", " ", pages["lockstep-train"]), word
    for word in ("Several nodes", "128 + N Signal N ended the rank", "--nproc-per-node 8 train.py"):
        assert word in re.sub(r"\s+", " ", pages["lockstep-run"]), word
    assert re.search(r"75 +Another rank died", pages["lockstep"]), pages["lockstep"]


BASH = r"""
source "$1"
shift
COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
COMP_WORDS=(lockstep "$@") COMP_CWORD=$#
_lockstep
printf '%s\n' "${COMPREPLY[@]}"
"""


def bash_offers(script, folder):
    for line, expected in CASES:
        words = line.split() + ([""] if line == "" or line.endswith(" ") else [])
        done = subprocess.run(["bash", "-uc", BASH, "bash", script, *words], text=True, capture_output=True, cwd=folder)
        offered = done.stdout.split("\n")[:-1]
        assert done.returncode == 0 and not done.stderr, f"lockstep {line}: {done.stderr}"
        for word in expected.split():
            wanted = not word.startswith("!")
            assert (word.lstrip("!") in offered) == wanted, f"lockstep {line}: {word} in {offered}"


class Zsh:
    """An interactive zsh in a terminal."""

    def __init__(self, functions, folder):
        environment = {"PATH": os.environ["PATH"], "TERM": "dumb", "HOME": str(folder), "LC_ALL": "C.UTF-8"}
        pid, self.terminal = pty.fork()
        if pid == 0:
            os.chdir(folder)
            os.execvpe("zsh", ["zsh", "-f", "-i"], environment)
        self.type(f"PS1='%%% ' fpath=({functions} $fpath); autoload -Uz compinit; compinit -u -D; bindkey -e; "
                  "setopt no_list_beep; unsetopt auto_menu; print READY-$((1 + 1))\n", until="READY-2")

    def type(self, text, until):
        """The terminal's output after this input, up to `until`."""
        os.write(self.terminal, text.encode())
        shown, end = "", time.monotonic() + 20
        while until not in shown and time.monotonic() < end:
            if select.select([self.terminal], [], [], 0.2)[0]:
                shown += os.read(self.terminal, 65536).decode(errors="replace").replace("\r", "")
        return shown

    def completed(self, line, until):
        shown = self.type(f"{line}\t", until)
        self.type("\x15print CLEAR-$((1 + 1))\n", "CLEAR-2")
        return shown


def zsh_completes(functions, folder):
    zsh = Zsh(functions, folder)
    for line, until in (("lockstep tr", "lockstep train"), ("lockstep checkpoint d", "checkpoint diff"),
                        ("lockstep bench loader im", "loader imagenet"), ("lockstep train captcha:d", "captcha:digits"),
                        ("lockstep train --bac", "--backend"), ("lockstep train --device cu", "--device cuda"),
                        ("lockstep train captcha --set clip_v", "clip_value="),
                        ("lockstep train captcha --set amp=b", "amp=bf16"),
                        ("lockstep predict captcha no", "notes.txt"),
                        ("lockstep eval dete", "eval detection"), ("lockstep train tu", "tuned.yml")):
        shown = zsh.completed(line, until)
        assert until in shown, f"zsh, '{line}': {shown!r}"


def completion(build):
    """bash offers the words in CASES; zsh, if installed, completes some of them."""
    with tempfile.TemporaryDirectory(prefix="lockstep-shell-") as name:
        folder = pathlib.Path(name)
        (folder / "folder").mkdir()
        (folder / "tuned.yml").touch()
        (folder / "notes.txt").touch()
        bash_offers(made(build, "lockstep.bash"), folder)
        print(f"bash: {len(CASES)} lines")
        if shutil.which("zsh") is None:
            print("zsh is not installed: its completion was not tried")
            return
        subprocess.run(["zsh", "-n", made(build, "_lockstep")], check=True)
        zsh_completes(made(build, "_lockstep").parent, folder)
        print("zsh: completes")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("case", choices=["man_pages", "completion"])
    parser.add_argument("--build", type=pathlib.Path, default=SOURCE / "build/test", help="where Lockstep was built")
    args = parser.parse_args()
    {"man_pages": man_pages, "completion": completion}[args.case](args.build.resolve())


if __name__ == "__main__":
    main()
