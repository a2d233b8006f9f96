#!/usr/bin/env python3
"""Open MPI or torchrun starts processes under `cubfc run --share auto`, on the software driver.

usage: ranks_test.py CUBFC DRIVER_FOLDER LAUNCHER    (mpirun, or a torchrun's path)

Skipped (exit status 77) where the launcher is missing.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

CUBFC, DRIVER = map(os.path.abspath, sys.argv[1:3])
LAUNCHER = sys.argv[3]
GIB = 1 << 30
TAKING = os.path.join(os.path.dirname(os.path.abspath(__file__)), "taking.py")


class Ranks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="cubfc-mpi-test-")
        self.addCleanup(folder.cleanup)
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("CUBFC_")} | {
            "LD_LIBRARY_PATH": DRIVER, "STANDIN_MEMORY": "24GiB", "XDG_RUNTIME_DIR": folder.name, "CUDA_VISIBLE_DEVICES": "0"}

    def taken(self, ranks):
        words = ["--allow-run-as-root", "--oversubscribe", "-np", ranks] if LAUNCHER == "mpirun" else ["--nproc-per-node", ranks, "--no-python"]
        done = subprocess.run([LAUNCHER, *words, CUBFC, "run", "-q", "--share", "auto", "--", sys.executable, TAKING, "all"], env=self.environment,
                              capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("- ")]

    def assert_each_gets(self, all_taken, ranks, wanted):
        self.assertEqual(len(all_taken), ranks)
        for bytes_taken in all_taken:
            self.assertGreaterEqual(bytes_taken, 0.98 * wanted)
            self.assertLessEqual(bytes_taken, wanted)

    def test_ranks_share_the_gpu(self):
        self.assert_each_gets(self.taken("3"), 3, 8 * GIB)

    def test_one_rank_shares_with_nobody(self):
        self.assert_each_gets(self.taken("1"), 1, 24 * GIB)


if __name__ == "__main__":
    if not shutil.which(LAUNCHER):
        print(f"there is no {LAUNCHER}")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1], verbosity=2)
