"""`lockstep run --hosts`: one command starts the ranks of several hosts, shows their output, and stops them all.

The hosts are network namespaces, and ssh is a stand-in that enters them. Skipped if namespaces are not available.
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(sys.argv.pop()) if len(sys.argv) > 1 else ROOT / "build/test/bin"
sys.path.insert(0, str(ROOT / "scripts/common"))
from hosts import Hosts, can_make_hosts  # noqa: E402 (after the path is set)

SSH = """#!/bin/sh
# Called like ssh: HOST COMMAND.
case $1 in
{cases}
  *) echo "ssh: Could not resolve hostname $1" >&2; exit 255;;
esac
cd / || exit 1
LOCKSTEP_HOST_ID=$1 exec ip netns exec "$name" env -u MARK sh -c "$2"
"""
HELLO = ["sh", "-c", "echo \"hello from $RANK of $WORLD_SIZE: it's $OMP_NUM_THREADS\""]
WAIT = ["sh", "-c", "echo ready; exec sleep 1000"]


@unittest.skipIf(not can_make_hosts(), "network namespaces need root and ip")
class HostsCommand(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory())) if hasattr(cls, "enterClassContext") \
            else pathlib.Path(tempfile.mkdtemp())
        cls.network = Hosts(3)
        cls.network.__enter__()
        cls.addClassCleanup(cls.network.__exit__)
        cases = "\n".join(f"  {cls.network.address(i)}) name={name};;" for i, name in enumerate(cls.network.names))
        cls.ssh = cls.folder / "ssh stand-in"
        cls.ssh.write_text(SSH.format(cases=cases))
        cls.ssh.chmod(0o755)

    def hosts(self, *suffixes):
        return ",".join(self.network.address(i) + suffix for i, suffix in enumerate(suffixes))

    def start(self, hosts, program, *options):
        command = [BIN / "lockstep", "run", "--hosts", hosts, "--ssh", f"'{self.ssh}'", *options, "--", *program]
        environment = dict(os.environ, OMP_NUM_THREADS="3", TMPDIR=str(self.folder), LOCKSTEP_TIMEOUT="60")
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
                                stdin=subprocess.DEVNULL, cwd=self.folder)

    def run_hosts(self, *words):
        process = self.start(*words)
        output, errors = process.communicate(timeout=60)
        return process.returncode, output, errors

    def left(self):
        return [pid for i in range(3) for pid in self.network.processes(i)]

    def launcher(self, host):
        """The launcher's process on a host; its children that have not yet become a rank have the same command line."""
        return min(pid for pid in self.network.processes(host)
                   if b"--orders-on-input" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"))

    def assert_nothing_is_left(self, seconds=10):
        end = time.monotonic() + seconds
        while self.left() and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(self.left(), [])

    def wait_until_ready(self, process, count):
        for _ in range(count):
            self.assertIn("ready", process.stdout.readline())

    def test_every_host_starts_its_ranks_and_all_print_on_one_console(self):
        code, output, errors = self.run_hosts(self.hosts("", ":2", ""), HELLO)
        self.assertEqual(code, 0, errors)
        self.assertEqual(sorted(output.splitlines()), [f"{self.network.address(host)}: [{rank}]: hello from {rank} of 4: it's 3"
                                                       for rank, host in enumerate([0, 1, 1, 2])])
        self.assert_nothing_is_left()

    def test_a_hostfile_does_the_same(self):
        file = self.folder / "hosts"
        file.write_text(f"{self.network.address(0)} slots=2\n{self.network.address(1)}\n")
        command = [BIN / "lockstep", "run", "--hostfile", file, "--ssh", f"'{self.ssh}'", "--nproc-per-node", "1", "--", *HELLO]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, cwd=self.folder,
                              env=dict(os.environ, TMPDIR=str(self.folder)))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(done.stdout.splitlines()), 3)

    def test_the_failure_is_told_once_and_last_with_its_host(self):
        program = ["sh", "-c", "if [ $RANK = 1 ]; then echo broken >&2; exit 3; fi; exec sleep 1000"]
        code, _, errors = self.run_hosts(self.hosts("", "", ""), program)
        self.assertEqual(code, 3, errors)
        self.assertEqual(errors.count("rank 1 failed"), 1, errors)
        end = errors[errors.index("rank 1 failed"):]
        self.assertIn("broken", end)
        self.assertTrue(all(line.startswith(self.network.address(1)) for line in end.splitlines()[1:]), errors)
        self.assert_nothing_is_left()

    def test_a_rank_that_ends_with_the_code_of_a_failed_ssh_is_not_a_lost_host(self):
        for own in (126, 255):
            code, _, errors = self.run_hosts(self.hosts("", ""), ["sh", "-c", f"[ $RANK = 0 ] || exit {own}; exec sleep 1000"])
            self.assertEqual(code, 1, errors)
            self.assertIn("rank 1 failed", errors)
            self.assertIn(f"exit code {own}", errors)
            self.assertNotIn("could not be reached", errors)
            self.assertNotIn("install the same Lockstep there", errors)

    def test_ctrl_c_ends_all_hosts(self):
        process = self.start(self.hosts("", ""), WAIT)
        self.wait_until_ready(process, 2)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 130, errors)
        self.assert_nothing_is_left()

    def test_a_killed_command_leaves_nothing_on_the_hosts(self):
        process = self.start(self.hosts("", ""), WAIT)
        self.wait_until_ready(process, 2)
        process.kill()
        process.communicate(timeout=30)
        self.assert_nothing_is_left(30)

    def test_a_host_that_ssh_does_not_reach_ends_the_run(self):
        begin = time.monotonic()
        code, _, errors = self.run_hosts(self.hosts("") + ",nowhere", HELLO)
        self.assertIn("ssh: Could not resolve hostname nowhere", errors)
        self.assertIn("lockstep: host nowhere could not be reached", errors.splitlines()[-2])
        self.assertEqual(code, 75)
        self.assertLess(time.monotonic() - begin, 20)
        self.assert_nothing_is_left()

    def test_a_host_that_is_lost_is_named(self):
        program = ["sh", "-c", "[ $RANK != 1 ] || kill -9 $(ps -o ppid= -p $PPID); exec sleep 1000"]
        code, _, errors = self.run_hosts(self.hosts("", "", ""), program)
        self.assertEqual(code, 75, errors)
        self.assertIn(f"node 1 ({self.network.address(1)}, rank 1) is lost", errors[errors.index("lockstep: "):])
        self.assert_nothing_is_left()

    def test_a_range_goes_on_without_a_host(self):
        hosts = self.hosts("", "") + ",nowhere"
        code, output, errors = self.run_hosts(hosts, HELLO, "--nnodes", "2:3", "--rdzv-conf", "last_call_timeout=2")
        self.assertEqual(code, 0, errors)
        self.assertEqual(len(output.splitlines()), 2, output)
        self.assertIn("of 2", output)

    def test_a_range_completes_the_job_after_a_host_has_left(self):
        program = ["sh", "-c", "echo ready; [ $WORLD_SIZE = 2 ] || exec sleep 1000"]
        process = self.start(self.hosts("", "", ""), program, "--nnodes", "2:3", "--rdzv-conf", "last_call_timeout=10")
        self.wait_until_ready(process, 3)
        os.kill(self.launcher(2), signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, errors)
        self.assert_nothing_is_left()

    def test_the_doctor_measures_between_every_two_hosts(self):
        begin = time.monotonic()
        code, output, errors = self.run_hosts(self.hosts("", ":2", ""), [BIN / "lockstep", "doctor", "--json"])
        self.assertEqual(code, 0, errors)
        links = [json.loads(line.removeprefix(f"{self.network.address(0)}: [0]: ")) for line in output.splitlines()]
        addresses = [self.network.address(i) for i in range(3)]
        self.assertEqual([(link["from"], link["to"]) for link in links],
                         [(a, b) for i, a in enumerate(addresses) for b in addresses[i + 1:]], output)
        for link in links:
            self.assertIsNone(link["problem"])
            self.assertGreater(link["round_trip_us"], 1)
            # It must not include the time the other host spends with a third one, some 700 ms.
            self.assertLess(link["round_trip_us"], 100_000)
            self.assertGreater(link["gbit_per_s"], 0.05)
            self.assertEqual((link["wire"], link["other_wire"]), ("tls", "plain"))
            self.assertGreater(link["other_gbit_per_s"], 0.05)
        self.assertLess(time.monotonic() - begin, 20)
        self.assert_nothing_is_left()

    def test_the_doctor_names_a_link_that_a_firewall_closes(self):
        third = ["ip", "netns", "exec", self.network.names[2]]
        # A dead route: host 2, which connects to host 1 as its ranks would, no longer reaches it; both still reach rank 0.
        subprocess.run([*third, "ip", "route", "add", "unreachable", f"{self.network.address(1)}/32"], check=True)
        self.addCleanup(subprocess.run, [*third, "ip", "route", "delete", "unreachable", f"{self.network.address(1)}/32"],
                        check=True)
        code, output, errors = self.run_hosts(self.hosts("", "", ""), [BIN / "lockstep", "doctor"])
        self.assertEqual(code, 69, errors)
        self.assertIn(f"-> {self.network.address(1)} and {self.network.address(2)}: cannot connect: No route to host", output)
        self.assertEqual(output.count("cannot connect"), 1, output)

    def test_this_machine_needs_no_ssh(self):
        code, output, errors = self.run_hosts("localhost:2", HELLO)
        self.assertEqual(code, 0, errors)
        self.assertEqual(len(output.splitlines()), 2)

    def test_contradictions_are_named(self):
        for words, said in [(("--node-rank", "1"), "--hosts and --node-rank 1 are mutually exclusive"),
                            (("--nnodes", "3"), "--nnodes is 3, but 2 hosts are listed"),
                            (("--hostfile", "x"), "--hosts and --hostfile are mutually exclusive")]:
            code, _, errors = self.run_hosts("a,b", HELLO, *words)
            self.assertEqual(code, 64, errors)
            self.assertIn(said, errors)


class LimitOfOpenFiles(unittest.TestCase):
    def test_is_raised_for_many_hosts(self):
        hosts = ",".join(f"203.0.113.{number}" for number in range(1, 21))
        command = [BIN / "lockstep", "run", "--hosts", hosts, "--ssh", "true", "--", "true"]
        done = subprocess.run(["sh", "-c", 'ulimit -Sn 64; exec "$@"', "sh", *command], capture_output=True, text=True,
                              check=False, timeout=60, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
