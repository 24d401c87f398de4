#!/usr/bin/env python3
"""Runs a test program with OPENBLAS_CORETYPE set; exits with 77 (skipped) if the processor cannot run those kernels.

usage: on_core_type.py CORE PROGRAM [ARGUMENT...]
"""
import os
import sys

NEEDS = {
    "Haswell": {"avx2", "fma"},
    "Zen": {"avx2", "fma"},
    "SkylakeX": {"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"},
    "Cooperlake": {"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl", "avx512_bf16"},
}


def flags() -> set[str]:
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        return next((set(line.split(":")[1].split()) for line in lines if line.startswith("flags")), set())


def main() -> None:
    core, program = sys.argv[1], sys.argv[2:]
    missing = NEEDS[core] - flags()
    if missing:
        print(f"skipped: this processor has no {', '.join(sorted(missing))}, which {core}'s kernels use")
        sys.exit(77)
    os.execve(program[0], program, {**os.environ, "OPENBLAS_CORETYPE": core})


main()
