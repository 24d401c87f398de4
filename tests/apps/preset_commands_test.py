#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the commands at the top of the recipes' presets, one step each, on small data of the kinds that they name.

usage: preset_commands_test.py SOURCE_DIR BIN_DIR
"""
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

# Settings for a quick step; the command's own settings are kept.
SMALL = {"detection": ["image_size=160", "batch_size=2", "total_batch_size=0"], "segmentation": ["augment.crop=64", "batch_size=2"],
         "captioning": ["batch_size=4"], "captcha": ["batch_size=4"]}
MORE = {"detection:dfine_n": ["image_size=256"], "detection:deim_n": ["image_size=256"]}  # two scales, for 300 queries
FOR_ALL = ["max_steps=1", "workers=1", "log_every_steps=1", "checkpoint.keep_last=1"]
WEIGHTS = re.compile(r" --init-from (\S+\.pth)")


def commands_of(page: str) -> list[str]:
    """The commands in the comment at the top of a preset; a trailing backslash continues one on the next line."""
    lines = []
    for line in page.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#   ").rstrip() if line.startswith("#   ") else "")
    return [line for line in "\n".join(lines).replace("\\\n", " ").splitlines() if line.startswith("lockstep ")]


def png(rows: list[bytes], channels: int) -> bytes:
    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    head = struct.pack(">IIBBBBB", len(rows[0]) // channels, len(rows), 8, {1: 0, 3: 2}[channels], 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row for row in rows))) + chunk(b"IEND", b"")


def make_nuclei(folder: pathlib.Path) -> None:
    """Images of one round nucleus each, with masks."""
    for name in ("images", "masks"):
        (folder / name).mkdir(parents=True)
    for number in range(6):
        inside = [[(x - 30 - number) ** 2 + (y - 32) ** 2 < 200 for x in range(64)] for y in range(64)]
        (folder / f"images/{number}.png").write_bytes(png([b"".join(bytes([200 if at else 30] * 3) for at in row) for row in inside], 3))
        (folder / f"masks/{number}.png").write_bytes(png([bytes(row) for row in inside], 1))


def make_nlvr(folder: pathlib.Path) -> None:
    """Ten images with a true sentence each, in NLVR's layout."""
    (folder / "images/0").mkdir(parents=True)
    lines = []
    for number in range(10):
        (folder / f"images/0/dev-{number}-0-0.png").write_bytes(png([bytes([40 * (number % 4), 9, 90] * 80)] * 24, 3))
        lines.append(json.dumps({"identifier": f"{number}-0", "directory": "0", "sentence": "there is a box with a ball", "label": "true"}))
    (folder / "dev.json").write_text("\n".join(lines) + "\n")


def run(command: str, folder: pathlib.Path) -> None:
    done = subprocess.run(["/bin/sh", "-c", command], cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"$ {command}\n{done.stdout}{done.stderr}it ends with {done.returncode}")


def make_data(folder: pathlib.Path) -> None:
    """The data that the commands leave to their reader: images with boxes, with masks, with all of VOC's labels, with
    sentences."""
    run("lockstep generate detection --out mugs --count 5 --seed 1 --size 96", folder)
    run("lockstep generate segmentation --out VOC2012 --count 8 --seed 1 --size 64", folder)
    for part in ("train", "val"):
        make_nuclei(folder / "nuclei" / part)
    make_nuclei(folder / "leaves")
    (folder / "leaves/classes.txt").write_text("ground\nleaf\n")
    make_nlvr(folder / "nlvr/dev")


def small(command: str) -> str:
    """The same command with few samples and one step; "..." is replaced by a dataset."""
    if command.startswith("lockstep generate"):
        return re.sub(r"--count \d+", "--count 8", command)
    what = re.match(r"lockstep train ([\w:]+)", command)[1]
    settings = [*FOR_ALL, *SMALL[what.split(":")[0]], *MORE.get(what, [])]
    return f"{command.replace('=...', '=mugs')} --run-dir run --set " + " --set ".join(settings)


def try_presets(home: pathlib.Path, presets: list[pathlib.Path], data: pathlib.Path) -> str:
    """Runs the commands of one network one after another: the first produces the weights that the others name."""
    shutil.copytree(data, home)
    said = []
    for preset in presets:
        for command in map(small, commands_of(preset.read_text())):
            named = WEIGHTS.search(command)
            if named and not (home / named[1]).exists():
                run(f"{WEIGHTS.sub('', command)} && lockstep checkpoint export run --to {named[1]}", home)
                shutil.rmtree(home / "run")
            run(command, home)
            shutil.rmtree(home / "run", ignore_errors=True)
            said.append(f"{preset.name}: {command}")
    return "\n".join(said)


def self_test() -> None:
    page = "# Words.\n#   lockstep a \\\n#     --b\n# lockstep is a word here, too\n#   lockstep c\nseed: 1\n#   lockstep d\n"
    assert commands_of(page) == ["lockstep a    --b", "lockstep c"], commands_of(page)


def main() -> None:
    self_test()
    source, programs = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
    os.environ.update(PATH=f"{programs}:{os.environ['PATH']}", LOCKSTEP_DEVICE="cpu")
    groups = {}
    for preset in sorted((source / "recipes").rglob("*.yml")):
        if commands_of(preset.read_text()):
            network = re.sub(r"^(deim|dfine)_", "dfine_", preset.stem)
            groups.setdefault(f"{preset.relative_to(source / 'recipes').parts[0]}-{network}", []).append(preset)
    assert sum(map(len, groups.values())) >= 16, f"only {groups} have commands at their heads"
    with tempfile.TemporaryDirectory() as folder:
        data = pathlib.Path(folder) / "data"
        data.mkdir()
        make_data(data)
        failures = 0
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            tries = [pool.submit(try_presets, data.parent / name, presets, data) for name, presets in groups.items()]
            for ended in concurrent.futures.as_completed(tries):
                try:
                    print(ended.result(), flush=True)
                except RuntimeError as problem:
                    print(problem, flush=True)
                    failures += 1
    sys.exit(f"error: {failures} commands of presets fail" if failures else 0)


main()
