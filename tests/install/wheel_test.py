#!/usr/bin/env python3
"""The Python wheel as a file: its records, and how its programs are found. scripts/platforms/test_wheel tests a built one.

usage: wheel_test.py"""
import base64
import hashlib
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest
import zipfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "scripts/platforms"))
import gather  # noqa: E402
import wheel_file  # noqa: E402

VERSION = "0.1.0+torch2.14"
TAG = "py3-none-manylinux_2_36_x86_64"
PROGRAM = '#!/bin/sh\necho "$0|$PYTHON_EXEC|$LD_LIBRARY_PATH|$*"\n'


class Wheel(unittest.TestCase):
    """A wheel of programs that print how they were called, unpacked as pip does."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="lockstep-wheel-")
        root = pathlib.Path(cls.folder.name).resolve()
        tree, cls.file, cls.home = root / "tree", root / "made.whl", root / "home"
        (tree / "lockstep/bin").mkdir(parents=True)
        for name in wheel_file.PROGRAMS:
            (tree / "lockstep/bin" / name).write_text(PROGRAM)
            (tree / "lockstep/bin" / name).chmod(0o755)
        wheel_file.add_python(tree, VERSION)
        wheel_file.write_metadata(tree, VERSION, "2.14.1", TAG)
        wheel_file.write_archive(tree, VERSION, cls.file)
        cls.site = cls.home / "lib/python3.11/site-packages"
        cls.unpack()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def unpack(cls):
        scripts = f"{wheel_file.stem(VERSION)}.data/scripts/"
        with zipfile.ZipFile(cls.file) as archive:
            for entry in archive.infolist():
                name = entry.filename
                path = cls.home / "bin" / name.removeprefix(scripts) if name.startswith(scripts) else cls.site / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(archive.read(entry))
                path.chmod(stat.S_IMODE(entry.external_attr >> 16))

    def said(self, *words, **variables):
        environment = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", **variables}
        done = subprocess.run([str(word) for word in words], env=environment, text=True, stdout=subprocess.PIPE, check=True)
        return done.stdout.strip().split("|")

    def test_records_every_file_with_its_hash(self):
        info = f"{wheel_file.stem(VERSION)}.dist-info"
        with zipfile.ZipFile(self.file) as archive:
            record = dict(line.split(",", 1) for line in archive.read(f"{info}/RECORD").decode().splitlines())
            self.assertEqual(sorted(record), sorted(archive.namelist()))
            for name, words in record.items():
                digest = base64.urlsafe_b64encode(hashlib.sha256(archive.read(name)).digest()).rstrip(b"=").decode()
                expected = "," if name.endswith("/RECORD") else f"sha256={digest},{archive.getinfo(name).file_size}"
                self.assertEqual(words, expected, name)
            metadata = archive.read(f"{info}/METADATA").decode()
            self.assertIn(f"Tag: {TAG}\n", archive.read(f"{info}/WHEEL").decode())
        self.assertIn("\nRequires-Dist: torch >=2.14,<2.15\n", metadata)
        self.assertIn(f"Name: lockstep-ddp\nVersion: {VERSION}\n", metadata)

    def test_every_system_has_its_own_glibc_and_runtime_of_the_compiler(self):
        """A part from another glibc would not load alongside this one's."""
        for name in ("libc.so.6", "libresolv.so.2", "libutil.so.1", "libnss_dns.so.2", "libstdc++.so.6", "libgomp.so.1"):
            self.assertTrue(gather.NOT_COPIED.match(name), name)
        for name in ("libcurl.so.4", "libcrypto.so.3", "libutil_of_others.so.1", "librtmp.so.1", "libmd.so.0"):
            self.assertFalse(gather.NOT_COPIED.match(name), name)

    def test_what_torch_has_of_cuda_does_not_come_along(self):
        torch, package = self.home.with_name("torch"), self.home.with_name("package")
        for folder in (torch / "lib", package / "lib"):
            folder.mkdir(parents=True)
        parts = ["cc", "-shared", "-x", "c", "/dev/null", "-Wl,--no-as-needed"]
        subprocess.run([*parts, "-Wl,-soname,libtorch_cuda.so", "-o", torch / "lib/libtorch_cuda.so"], check=True)
        subprocess.run([*parts, "-o", package / "lib/liblockstep-cuda.so", "-L", torch / "lib", "-ltorch_cuda"], check=True)
        self.assertIn("libtorch_cuda.so", wheel_file.needed(package / "lib/liblockstep-cuda.so"))
        self.assertEqual(wheel_file.bundle(package, torch), [])
        self.assertEqual([path.name for path in (package / "lib").iterdir()], ["liblockstep-cuda.so"])

    def test_is_the_same_file_whenever_it_is_written(self):
        again = self.file.with_name("again.whl")
        wheel_file.write_archive(self.file.with_name("tree"), VERSION, again)
        self.assertEqual(self.file.read_bytes(), again.read_bytes())

    def test_each_program_starts_by_its_name_and_through_a_link(self):
        for name in wheel_file.PROGRAMS:
            self.assertEqual(self.said(self.home / "bin" / name, "a", "b c")[3], "a b c")
        link = self.home.with_name("linked")
        link.symlink_to(self.home / "bin/lockstep-worker")
        self.assertTrue(self.said(link)[0].endswith("lockstep/bin/lockstep-worker"))

    def test_each_program_starts_from_a_package_in_lib64(self):
        """Where Fedora's and openSUSE's pip put a package with compiled parts."""
        home = self.home.with_name("fedora")
        shutil.copytree(self.home / "bin", home / "bin")
        shutil.copytree(self.site / "lockstep", home / "lib64/python3.13/site-packages/lockstep")
        (home / "lib/python3.13/site-packages").mkdir(parents=True)
        for name in wheel_file.PROGRAMS:
            said = self.said(home / "bin" / name, "a", "b c")
            self.assertEqual(said[0], f"{home}/bin/../lib64/python3.13/site-packages/lockstep/bin/{name}")
            self.assertEqual(said[3], "a b c")

    def test_a_folder_of_pip_install_target_works_too(self):
        target = self.home.with_name("target")
        shutil.copytree(self.home / "bin", target / "bin")
        shutil.copytree(self.site / "lockstep", target / "lockstep")
        self.assertTrue(self.said(target / "bin/lockstep")[0].startswith(f"{target}/bin/../lockstep/"))

    def test_without_the_package_the_error_says_what_installs_it(self):
        alone = self.home.with_name("alone") / "lockstep"
        alone.parent.mkdir()
        alone.write_bytes((self.home / "bin/lockstep").read_bytes())
        done = subprocess.run(["sh", alone], stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 69)
        self.assertIn("pip install --force-reinstall lockstep-ddp", done.stderr)

    def test_as_a_module_it_says_which_python_it_is(self):
        said = self.said(sys.executable, "-m", "lockstep", "run", "train.py", PYTHONPATH=str(self.site))
        self.assertEqual((said[1], said[3]), (sys.executable, "run train.py"))
        said = self.said(sys.executable, "-m", "lockstep", PYTHONPATH=str(self.site), PYTHON_EXEC="/opt/python")
        self.assertEqual(said[1], "/opt/python")

    def test_as_a_module_it_finds_a_torch_that_is_installed_elsewhere(self):
        elsewhere = self.home.with_name("elsewhere")
        (elsewhere / "torch/lib").mkdir(parents=True)
        (elsewhere / "torch/__init__.py").write_text("raise SystemExit('nobody asked for torch itself')\n")
        paths = f"{self.site}:{elsewhere}"
        self.assertEqual(self.said(sys.executable, "-m", "lockstep", PYTHONPATH=paths)[2], f"{elsewhere}/torch/lib")
        (self.site / "torch/lib").mkdir(parents=True)
        self.addCleanup(lambda: (self.site / "torch/lib").rmdir())
        self.assertEqual(self.said(sys.executable, "-m", "lockstep", PYTHONPATH=paths)[2], "")


if __name__ == "__main__":
    unittest.main()
