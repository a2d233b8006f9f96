#!/usr/bin/env python3
"""cubfc.dask with real workers of Dask's on this machine, on the software driver.

usage: dask_test.py CUBFC DRIVER_FOLDER MODULE_FOLDER    (CUBFC: the command; in an environment that has distributed)
"""
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
CUBFC, DRIVER, MODULE = map(os.path.abspath, sys.argv[1:4])
HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = tempfile.TemporaryDirectory(prefix="cubfc-dask-test-")
GIB = 1 << 30
SECONDS = 120
sys.path.insert(0, MODULE)
os.environ.update(
    PATH=f"{os.path.dirname(CUBFC)}:{os.environ['PATH']}", PYTHONPATH=f"{MODULE}:{HERE}", LD_LIBRARY_PATH=DRIVER, STANDIN_MEMORY="24GiB",
    XDG_RUNTIME_DIR=FOLDER.name, PYTHONDONTWRITEBYTECODE="1")

from distributed import Client, LocalCluster  # noqa: E402

import cubfc.dask  # noqa: E402
from taking import take  # noqa: E402

CLUSTER = {"threads_per_worker": 1, "dashboard_address": None, "n_workers": 1}


def told():
    import os
    import cubfc
    return cubfc.is_active(), os.environ.get("CUBFC_MEM_LIMIT")


class Workers(unittest.TestCase):
    def setUp(self):
        for name in ("LD_PRELOAD", "CUBFC_MEM_LIMIT"):  # Dask leaves them here when it starts a worker again
            os.environ.pop(name, None)

    def start(self, **more):
        cluster = LocalCluster(**(CLUSTER | more))
        self.addCleanup(cluster.close)
        client = Client(cluster, timeout=SECONDS)
        self.addCleanup(client.close)
        return cluster, client

    def test_each_worker_has_the_limit_also_when_it_is_started_again(self):
        with cubfc.dask.preloaded(mem_limit="3GiB"):
            _, client = self.start(n_workers=2)
        client.register_plugin(cubfc.dask.Required())
        self.assertEqual(list(client.run(take).values()), [3 * GIB] * 2)
        client.restart(timeout=SECONDS)
        self.assertEqual(list(client.run(take).values()), [3 * GIB] * 2)

    def test_this_process_starts_other_things_as_before(self):
        before = dict(os.environ)
        with cubfc.dask.preloaded(mem_limit="3GiB"):
            _, client = self.start()
        for name in ("LD_PRELOAD", "CUBFC_MEM_LIMIT"):
            self.assertEqual(os.environ.get(name), before.get(name))
        self.assertEqual(list(client.run(told).values()), [(True, "3GiB")])
        _, other = self.start()
        self.assertEqual(list(other.run(told).values()), [(False, None)])

    def test_what_dask_sets_before_a_worker_starts_stays(self):
        with cubfc.dask.preloaded(mem_limit="3GiB"):
            _, client = self.start()
        self.assertEqual(list(client.run(lambda: __import__("os").environ["OMP_NUM_THREADS"]).values()), ["1"])

    def test_a_worker_without_the_library_fails_and_says_so(self):
        # The environment of a worker's own is set too late to preload anything.
        with self.subTest("Nanny's env"):
            _, client = self.start(env=cubfc.environment(mem_limit="3GiB"))
            self.assertEqual([active for active, _ in client.run(told).values()], [False])
            with self.assertRaisesRegex(RuntimeError, "is not under cubfc, and nothing limits its GPU memory"):
                client.register_plugin(cubfc.dask.Required())
        with self.subTest("a worker that comes later"):
            with cubfc.dask.preloaded(mem_limit="3GiB"):
                _, client = self.start()
            client.register_plugin(cubfc.dask.Required())
            scheduler = client.scheduler.address
            for words in (["--nanny"], ["--no-nanny"]):
                late = subprocess.run([sys.executable, "-m", "distributed.cli.dask_worker", scheduler, "--nthreads", "1", "--no-dashboard", *words],
                                      capture_output=True, text=True, timeout=SECONDS, check=False)
                self.assertIn("is not under cubfc", late.stdout + late.stderr)
            self.assertEqual([active for active, _ in client.run(told).values()], [True])

    def test_a_worker_of_the_command_line(self):
        _, client = self.start()
        worker = subprocess.Popen([CUBFC, "run", "-q", "--mem-limit", "2GiB", "--", sys.executable, "-m", "distributed.cli.dask_worker",
                                   client.scheduler.address, "--nthreads", "1", "--name", "ours", "--no-dashboard"],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(worker.wait)
        self.addCleanup(worker.terminate)
        client.wait_for_workers(2, timeout=SECONDS)
        self.assertEqual(sorted(active for active, _ in client.run(told).values()), [False, True])
        ours = next(address for address, (active, _) in client.run(told).items() if active)
        self.assertEqual(list(client.run(take, workers=[ours]).values()), [2 * GIB])

    def test_what_cannot_be_used_is_said_before_anything_starts(self):
        with self.assertRaisesRegex(ValueError, "mem-limt"):
            with cubfc.dask.preloaded(mem_limt="3GiB"):
                self.fail("it was accepted")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
