"""Checks the files for schedulers: YAML with everything the launcher needs, shell that bash can parse, ranks under mpirun."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILES = ROOT / "docs/schedulers"
BIN = pathlib.Path(sys.argv.pop()) if len(sys.argv) > 1 else ROOT / "build/test/bin"

try:
    import yaml
except ImportError:
    yaml = None


@unittest.skipIf(yaml is None, "python3-yaml is not there")
class Kubernetes(unittest.TestCase):
    @staticmethod
    def documents(name):
        return list(yaml.safe_load_all((FILES / name).read_text()))

    def test_an_indexed_job_meets_at_pod_0_with_a_secret_and_shared_memory(self):
        service, job = self.documents("job.yaml")
        self.assertEqual(service["spec"]["clusterIP"], "None")
        self.assertEqual(job["spec"]["completionMode"], "Indexed")
        pod = job["spec"]["template"]["spec"]
        self.assertEqual(pod["subdomain"], service["metadata"]["name"])
        container = pod["containers"][0]
        name = job["metadata"]["name"]
        self.assertIn(f"--rdzv-endpoint={name}-0.{pod['subdomain']}:29500", container["command"])
        self.assertIn(f"--nnodes=2:{job['spec']['parallelism']}", container["command"])
        self.assertIn("secretKeyRef", container["env"][0]["valueFrom"])
        self.assertIn("/dev/shm", [mount["mountPath"] for mount in container["volumeMounts"]])
        self.assertEqual(pod["volumes"][0]["emptyDir"]["medium"], "Memory")

    def test_a_pytorch_job_has_one_rank_in_each_pod(self):
        (job,) = self.documents("pytorchjob.yaml")
        replicas = job["spec"]["pytorchReplicaSpecs"]
        self.assertEqual(replicas["Master"]["replicas"], 1)
        for kind in ("Master", "Worker"):
            container = replicas[kind]["template"]["spec"]["containers"][0]
            self.assertEqual(container["name"], "pytorch")
            self.assertEqual(container["command"][:2], ["lockstep", "train"])
            self.assertEqual(container["env"][0]["name"], "LOCKSTEP_TOKEN")


class Shell(unittest.TestCase):
    def test_bash_reads_every_script(self):
        for path in [*FILES.glob("*.sbatch"), *FILES.glob("*.sh")]:
            subprocess.run(["bash", "-n", str(path)], check=True)

    def test_batch_files_save_before_the_time_is_over_and_come_again(self):
        for path in FILES.glob("*.sbatch"):
            text = path.read_text()
            for line in ("#SBATCH --signal=USR1@90\n", "#SBATCH --requeue\n", "--resume auto"):
                self.assertIn(line, text, path.name)


@unittest.skipIf(shutil.which("mpirun") is None, "mpirun is not there")
class Mpirun(unittest.TestCase):
    def run_under(self, *command, **more):
        with tempfile.TemporaryDirectory() as folder:
            environment = {key: value for key, value in os.environ.items() if not key.startswith(("LOCKSTEP_", "RANK"))}
            environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "MASTER_ADDR": "127.0.0.1",
                            "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_plm_rsh_agent": "", "OMP_NUM_THREADS": "1",
                            "TMPDIR": folder}
            return subprocess.run(command, env=environment | more, text=True, capture_output=True, timeout=120, check=False)

    def test_each_process_is_a_rank(self):
        run = self.run_under(str(FILES / "mpirun.sh"), "2", str(BIN / "lockstep-worker"), "bench", "all-reduce", "--bytes",
                             "4096", "--json", MASTER_PORT="29641")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn('"ranks": 2', run.stdout)

    def test_each_process_is_a_launcher(self):
        words = (f"exec {BIN}/lockstep run --nnodes 2 --node-rank $OMPI_COMM_WORLD_RANK --nproc-per-node 2 --master-port 29642"
                 " -- sh -c 'echo rank $RANK of $WORLD_SIZE, mpi ${OMPI_COMM_WORLD_RANK:-none}'")
        run = self.run_under("mpirun", "-np", "2", "sh", "-c", words, LOCKSTEP_TOKEN="a secret of 16 or more")
        self.assertEqual(run.returncode, 0, run.stderr)
        for rank in range(4):
            self.assertIn(f"rank {rank} of 4, mpi none", run.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
