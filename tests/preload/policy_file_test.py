#!/usr/bin/env python3
"""/etc/cubfc.conf as programs meet it, in a mount namespace in which /etc is a copy, and the folders
in which processes meet are empty.

    policy_file_test.py LIBRARY COMMAND STANDIN_FOLDER PROGRAMS_FOLDER

Skipped (77) where no such namespace can be made.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
from step_by_step import StepByStep  # noqa: E402

LIBRARY, COMMAND, STANDIN, PROGRAMS = (os.path.realpath(path) for path in sys.argv[1:5])
INSIDE = "CUBFC_TEST_INSIDE"
FILE = pathlib.Path("/etc/cubfc.conf")


def program(*words):
    return [os.path.join(PROGRAMS, "program_free_memory"), *words]


def run(command, user=None, **environment):
    """On a device of 4 GiB, with just this environment."""
    with tempfile.TemporaryDirectory() as runtime:
        return subprocess.run(
            command, user=user, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "LD_LIBRARY_PATH": STANDIN,
                 "STANDIN_MEMORY": "4GiB", "XDG_RUNTIME_DIR": runtime, **environment})


def total_of(done):
    """MiB that the program has seen of the device and could have in one piece."""
    return int(done.stdout.split()[-1])


class PolicyFile(unittest.TestCase):
    def write(self, text, mode=0o644):
        data = text if isinstance(text, bytes) else text.encode()
        FILE.write_bytes(data)
        FILE.chmod(mode)

    def tearDown(self):
        if FILE.is_dir() and not FILE.is_symlink():
            FILE.rmdir()
        else:
            FILE.unlink(missing_ok=True)
        pathlib.Path("/etc/ld.so.preload").unlink(missing_ok=True)

    def nobody(self):
        """A user that may run the program, and may not read what root alone may read."""
        user = 65534
        try:
            done = run(program("empty", "total"), user=user)
        except (OSError, subprocess.SubprocessError):
            self.skipTest("in a user namespace of one user")
        if done.returncode != 0:
            self.skipTest("the build's folder is not for every user")
        return user

    def total(self, user=None, **environment):
        done = run(program("empty", "total"), user, LD_PRELOAD=LIBRARY, **environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return total_of(done), done.stderr

    def test_what_it_sets_holds_unless_the_environment_says_otherwise(self):
        self.write("# for this machine\n\n  CUBFC_MEM_LIMIT = 1GiB \n")
        self.assertEqual(self.total(), (1024, ""))
        self.assertEqual(self.total(CUBFC_MEM_LIMIT="2GiB"), (2048, ""))
        self.assertEqual(self.total(CUBFC_DISABLE="1"), (4096, ""))

    def test_what_it_enforces_holds_whatever_the_environment_says(self):
        self.write("enforce CUBFC_MEM_LIMIT=1GiB\n")
        for environment in ({}, {"CUBFC_MEM_LIMIT": "2GiB"}, {"CUBFC_MEM_LIMIT": "none"},
                            {"CUBFC_DISABLE": "1"}, {"CUBFC_MEM_FRACTION": "0.9"},
                            {"CUBFC_LIMIT_COUNTS": "arena"}, {"CUBFC_ALLOCATOR": "platform"},
                            {"CUBFC_ALLOCATOR": "cuda_async"},
                            {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.9"}):
            with self.subTest(environment=environment):
                total, said = self.total(**environment)
                self.assertIn(total, (0, 1024))
                if total == 0:
                    self.assertIn("CUBFC_MEM_LIMIT", said)
        self.assertEqual(self.total(CUBFC_MEM_LIMIT="512MiB")[0], 512)

    def test_a_login_that_sheds_the_environment_keeps_the_limit(self):
        self.write("enforce CUBFC_MEM_LIMIT=1GiB\n")
        pathlib.Path("/etc/ld.so.preload").write_text(LIBRARY + "\n", encoding="utf-8")
        done = run(["env", "-i", "LD_LIBRARY_PATH=" + STANDIN, "STANDIN_MEMORY=4GiB",
                    "/bin/sh", "-c", " ".join(program("empty", "total"))])
        self.assertEqual((total_of(done), done.stderr), (1024, ""))
        listed = run(["env", "-i", "/bin/ls", "/"])
        self.assertEqual((listed.returncode, listed.stderr), (0, ""))

    def test_a_group_that_it_enforces_is_joined(self):
        self.write("enforce CUBFC_GROUP=job\nenforce CUBFC_GROUP_LIMIT=1GiB\n")
        for environment in ({}, {"CUBFC_GROUP": "mine", "CUBFC_GROUP_LIMIT": "3GiB"},
                            {"CUBFC_DISABLE": "1"}):
            self.assertEqual(self.total(**environment)[0], 1024)

    def test_a_group_that_it_enforces_is_one_in_whatever_folder_processes_meet(self):
        self.write("enforce CUBFC_GROUP=job\nenforce CUBFC_GROUP_LIMIT=1GiB\n")
        with tempfile.TemporaryDirectory() as runtime:
            device = {"LD_PRELOAD": LIBRARY, "STANDIN_SHARED": os.path.join(runtime, "device")}

            def got(mib):  # in another folder
                done = run(program("empty", f"ask:{mib}"), **device)
                return total_of(done), done.stderr

            with subprocess.Popen(
                    program("fill:900", "wait"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                    env={"LD_LIBRARY_PATH": STANDIN, "STANDIN_MEMORY": "4GiB", "XDG_RUNTIME_DIR": runtime,
                         **device}) as member:
                self.assertTrue(member.stdout.readline().startswith("900 "))
                nothing, said = got(500)
                self.assertEqual(nothing, 0)
                self.assertIn("CUBFC_GROUP_LIMIT in /etc/cubfc.conf", said)
                self.assertEqual(got(100), (100, ""))
                member.stdin.close()
            self.assertEqual(got(1000), (1000, ""))

    def test_a_group_limit_that_it_enforces_is_lowered_and_raised_again_and_no_further(self):
        self.write("enforce CUBFC_GROUP=job\nenforce CUBFC_GROUP_LIMIT=1GiB\n")
        with tempfile.TemporaryDirectory() as runtime, StepByStep(
                PROGRAMS, {"LD_LIBRARY_PATH": STANDIN, "STANDIN_MEMORY": "4GiB", "XDG_RUNTIME_DIR": runtime,
                           "LD_PRELOAD": LIBRARY, "CUBFC_LOG_LEVEL": "off"}) as member:
            def limit(size):  # by somebody whose environment names another folder
                done = run([COMMAND, "limit", "--group", "job", size])
                return done.returncode, done.stderr

            self.assertEqual(member.info(), (1024, 1024))
            status, said = limit("2GiB")
            self.assertEqual(status, 1)
            self.assertRegex(said, r"a policy file enforces the limit of process \d+, 1GiB; it cannot be raised to "
                                   r"2GiB. Nothing is changed")
            self.assertEqual(limit("512MiB"), (0, ""))
            self.assertEqual(member.info(), (512, 1024))
            self.assertEqual(member.say("take 600"), "error 2")
            self.assertEqual(limit("2GiB")[0], 1)
            self.assertEqual(limit("1GiB"), (0, ""))
            self.assertEqual(member.info(), (1024, 1024))
            self.assertEqual([member.say("take 1000"), member.say("take 100")], ["ok", "error 2"])

    def test_a_file_that_others_could_have_written_enforces_nothing_and_says_so(self):
        for mode, owner, why in ((0o666, 0, "others than root may write it"),
                                 (0o664, 0, "others than root may write it"),
                                 (0o644, 65534, "it is not root's")):
            with self.subTest(mode=oct(mode), owner=owner):
                self.write("enforce CUBFC_MEM_LIMIT=1GiB\n", mode)
                try:
                    os.chown(FILE, owner, 0)
                except OSError:
                    continue  # in a user namespace of one user
                total, said = self.total()
                self.assertEqual(total, 1024)
                self.assertIn("the environment can override what it enforces, since " + why, said)
                self.assertEqual(self.total(CUBFC_MEM_LIMIT="2GiB")[0], 2048)

    def test_what_cannot_be_read_is_said_by_line_and_the_rest_is_in_force(self):
        self.write("CUBFC_MEM_LIMT=3GiB\nnonsense\nLD_PRELOAD=/x\nCUBFC_MEM_LIMIT=1GiB\n")
        total, said = self.total()
        self.assertEqual(total, 1024)
        for line in ("CUBFC_MEM_LIMT in /etc/cubfc.conf is not an option",
                     '/etc/cubfc.conf, line 2: "nonsense"',
                     '/etc/cubfc.conf, line 3: "LD_PRELOAD"'):
            self.assertIn(line, said)

    def test_a_limit_in_it_that_cannot_be_read_gives_nothing(self):
        for line in ("CUBFC_MEM_LIMIT=much", "enforce CUBFC_MEM_LIMIT=1Gub",
                     "enforce CUBFC_GROUP=job"):
            with self.subTest(line=line):
                self.write(line + "\n")
                total, said = self.total()
                self.assertEqual(total, 0)
                self.assertIn("/etc/cubfc.conf", said)

    def test_whatever_lies_there_no_program_is_harmed(self):
        def folder():
            FILE.mkdir()

        def pipe():
            os.mkfifo(FILE)

        def dangling():
            FILE.symlink_to("/etc/not/there")

        def unreadable_kind():
            FILE.symlink_to("/dev/zero")

        kinds = {"folder": folder, "pipe": pipe, "dangling": dangling, "device": unreadable_kind,
                 "empty": lambda: self.write(""), "ones": lambda: self.write(b"\xff" * 100_000),
                 "zeros": lambda: self.write(b"\0" * 4096),
                 "large": lambda: self.write(b"#" * (3 << 20)),
                 "one line": lambda: self.write("CUBFC_MEM_LIMIT=" + "9" * 500_000),
                 "no end": lambda: self.write("enforce")}
        for kind, make in kinds.items():
            with self.subTest(kind=kind):
                make()
                done = run(program("empty", "total"), LD_PRELOAD=LIBRARY)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertLess(len(done.stderr), 20_000)
                listed = run(["ls", "/"], LD_PRELOAD=LIBRARY)
                self.assertEqual((listed.returncode, listed.stderr), (0, ""))
                # It refuses to start a program that would get no memory.
                started = run([COMMAND, "run", "-q", "--", "true"])
                gives_none = kind in ("one line", "folder", "large", "no end")
                self.assertEqual(started.returncode, 2 if gives_none else 0)
                self.tearDown()

    def test_one_of_root_s_that_cannot_be_read_gives_nothing_and_says_why(self):
        nobody = self.nobody()
        self.write("enforce CUBFC_MEM_LIMIT=1GiB\n", 0o600)
        total, said = self.total(nobody)
        self.assertEqual(total, 0)
        self.assertIn("/etc/cubfc.conf: Permission denied; what the file enforces cannot be known", said)
        self.assertEqual(self.total(nobody, CUBFC_DISABLE="1")[0], 0)

    def test_one_that_a_sandbox_hides_is_no_error(self):
        nobody = self.nobody()
        self.write("", 0o000)
        self.assertEqual(self.total(nobody)[0], 4096)

    def test_a_line_that_enforces_what_cannot_be_understood_gives_nothing(self):
        self.write("enforce CUBFC_MEM_LIMT=1GiB\n")
        total, said = self.total()
        self.assertEqual(total, 0)
        self.assertIn('/etc/cubfc.conf, line 1: "CUBFC_MEM_LIMT" is no name that cubfc knows', said)

    def test_a_shell_s_file_is_read(self):
        self.write(b"\xef\xbb\xbfexport CUBFC_MEM_LIMIT='1GiB'\n")
        self.assertEqual(self.total(), (1024, ""))

    def test_the_command_looks_at_one_before_it_is_installed(self):
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
            for text, status, words in (
                    ("enforce CUBFC_MEM_LIMIT=1GiB\nCUBFC_FREE=deferred\n", 0,
                     ("enforced  CUBFC_MEM_LIMIT=1GiB", "setting   CUBFC_FREE=deferred")),
                    ("enforce CUBFC_MEM_LIMT=1GiB\n", 1, ("problem", "CUBFC_MEM_LIMT")),
                    ("enforce CUBFC_MEM_LIMIT=1GiB\nenforce CUBFC_DISABLE=1\n", 1,
                     ("enforced  CUBFC_MEM_LIMIT=1GiB", "problem", "cubfc does nothing")),
                    ("nonsense\n", 1, ("problem", "nonsense"))):
                with self.subTest(text=text):
                    pathlib.Path(file.name).write_text(text)
                    done = run([COMMAND, "check", "--policy", file.name])
                    self.assertEqual(done.returncode, status, done.stdout + done.stderr)
                    for each in words:
                        self.assertIn(each, done.stdout)
        for path, words in (("/no/such/file", "No such file"), ("/", "Is a directory")):
            unreadable = run([COMMAND, "check", "--policy", path])
            self.assertEqual(unreadable.returncode, 1)
            self.assertIn(f'--policy "{path}": {words}', unreadable.stderr)
        endless = run([COMMAND, "check", "--policy", "/dev/zero"])
        self.assertEqual(endless.returncode, 1)
        self.assertIn("larger than 1 MiB", endless.stdout)

    def test_a_report_names_the_file_that_limits(self):
        self.write("enforce CUBFC_MEM_LIMIT=1GiB\n")
        done = run(program("fill:900", "ask:500"), LD_PRELOAD=LIBRARY)
        self.assertIn("CUBFC_MEM_LIMIT in /etc/cubfc.conf", done.stderr)

    def test_the_command_names_the_file(self):
        self.write("enforce CUBFC_MEM_LIMIT=1GiB\nCUBFC_FREE=deferred\n")
        done = run([COMMAND, "run", "--mem-limit", "2GiB", "--", *program("empty", "total")])
        self.assertEqual(total_of(done), 1024, done.stderr)
        self.assertIn("CUBFC_MEM_LIMIT in /etc/cubfc.conf", done.stderr)
        checked = run([COMMAND, "check"])
        self.assertIn("/etc/cubfc.conf", checked.stdout + checked.stderr)


def main():
    if INSIDE in os.environ:
        unittest.main(argv=sys.argv[:1] + sys.argv[5:], verbosity=1)
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "etc")
        shutil.copytree("/etc", copy, symlinks=True, ignore_dangling_symlinks=True,
                        ignore=lambda at, names: [name for name in names if not os.access(
                            os.path.join(at, name), os.R_OK)
                            and not os.path.islink(os.path.join(at, name))])
        pathlib.Path(copy, "cubfc.conf").unlink(missing_ok=True)
        user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        namespace = ["unshare", "--mount", *user, "sh", "-c",
                     f"mount --bind '{copy}' /etc && mount -t tmpfs none /dev/shm || exit 77; "
                     "[ ! -d /run/user ] || mount -t tmpfs none /run/user || exit 77; exec \"$@\"", "sh"]
        if shutil.which("unshare") is None or subprocess.run(
                [*namespace, "true"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
            print("no mount namespace can be made here")
            return 77
        return subprocess.run([*namespace, sys.executable, *sys.argv],
                              env={**os.environ, INSIDE: "1"}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
