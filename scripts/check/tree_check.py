# SPDX-License-Identifier: Apache-2.0
"""The command line of the tree checks: prints the findings, or tests the check itself."""
import argparse
import pathlib


def main(description, offenders, self_test):
    """`offenders(root)` and `self_test()` yield lines, one per fault. Returns the exit code: 1 if there is one."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", default=str(pathlib.Path(__file__).resolve().parents[2]), help="the checkout")
    parser.add_argument("--self-test", action="store_true", help="verify that the check fails on bad input")
    options = parser.parse_args()
    found = self_test() if options.self_test else list(offenders(options.root))
    for line in found:
        print(line)
    return 1 if found else 0
