# SPDX-License-Identifier: Apache-2.0
"""python -m lockstep VERB ...: becomes the lockstep program, which starts .py programs with this Python."""
import importlib.util
import os
import sys


def torch_elsewhere(site):
    """The folder of torch's libraries if torch is not installed next to this package; else ""."""
    if os.path.isdir(os.path.join(site, "torch", "lib")):
        return ""
    found = importlib.util.find_spec("torch")
    return os.path.join(found.submodule_search_locations[0], "lib") if found else ""


def main():
    package = os.path.dirname(os.path.realpath(__file__))
    os.environ.setdefault("PYTHON_EXEC", sys.executable)
    libraries = torch_elsewhere(os.path.dirname(package))
    if libraries:
        more = os.environ.get("LD_LIBRARY_PATH")
        os.environ["LD_LIBRARY_PATH"] = f"{libraries}:{more}" if more else libraries
    program = os.path.join(package, "bin", "lockstep")
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
