#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Presses F5 twice: runs the program in a .vscode/launch.json, then once more, without the debugger.

usage: debugger_test.py PROJECT PROGRAM      PROGRAM replaces the one named in the file
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile


def commands_of(project: pathlib.Path, program: str) -> list[tuple[list[str], dict[str, str]]]:
    """The commands in the file, with their variables; prompts get their default answers."""
    file = json.loads((project / ".vscode/launch.json").read_text())
    answers = {f"${{input:{question['id']}}}": question["default"] for question in file.get("inputs", [])}
    starts = [each for each in file["configurations"] if each["request"] == "launch"]
    assert starts and any(each["request"] == "attach" for each in file["configurations"]), file
    for each in starts:
        name = pathlib.PurePath(each["program"]).name
        assert name == pathlib.PurePath(program).name, f"it starts {name}"
    return [([program] + [answers.get(word, word) for word in each["args"]], {v["name"]: v["value"] for v in each["environment"]})
            for each in starts]


def main() -> None:
    project, program = pathlib.Path(sys.argv[1]).resolve(), str(pathlib.Path(sys.argv[2]).resolve())
    with tempfile.TemporaryDirectory() as elsewhere:
        # Runs in a project read its data; runs in Lockstep's own tree must leave nothing behind.
        folder = elsewhere if (project / "ARCHITECTURE.md").exists() else project
        for command, variables in commands_of(project, program):
            for press in ("first", "second"):
                done = subprocess.run(command, cwd=folder, env={**os.environ, **variables}, capture_output=True, text=True)
                if done.returncode != 0:
                    sys.exit(f"{press} time: {' '.join(command)}\n{done.stdout}{done.stderr}it ends with {done.returncode}")


if __name__ == "__main__":
    main()
