#!/usr/bin/env python3
"""`cubfc run`: the program under it is started as a shell, env or nohup would start it, and its own in everything it does;
what cubfc was asked for reaches the library; what cannot work is said before anything is started.

usage: run_test.py CUBFC LIBRARY DRIVER_FOLDER PROGRAMS_FOLDER
"""
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from under_cubfc import PATIENCE, UnderCubfc, run_tests, wait_until

NOT_FOUND, CANNOT_EXECUTE, USAGE = 127, 126, 2


class Run(UnderCubfc):
    def setUp(self):
        super().setUp()
        self.environment |= {"LD_LIBRARY_PATH": self.driver, "STANDIN_MEMORY": "4GiB"}
        self.allocates = f"{self.programs}/program_free_memory"

    def run_under(self, *words, stdin=None, **more):
        """`cubfc run WORDS`, with the environment and the input that are given."""
        return subprocess.run([self.cubfc, "run", *words], env=self.environment | more, input=stdin or "",
                              capture_output=True, text=True, errors="replace", timeout=PATIENCE, check=False,
                              **self.user)

    def file(self, name, text, mode=0o755):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        path.chmod(mode)
        return str(path)

    def environment_of(self, *words, **more):
        done = self.run_under("-q", *words, "--", "env", "-0", **more)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return dict(entry.split("=", 1) for entry in done.stdout.split("\0") if entry)

    def assert_refused(self, words, message, status=USAGE, **more):
        marker = self.folder / "started"
        done = self.run_under(*words, "--", "touch", str(marker), **more)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertRegex(done.stderr, r"\Acubfc: run: ")
        self.assertIn(message, done.stderr)
        self.assertFalse(marker.exists())


class Start(Run):
    def test_what_is_preallocated_for_a_program_that_makes_its_memory_is_said_once(self):
        words = ("fill:10", "create:1500", "create:1500")
        done = self.run_under("--", self.allocates, *words, CUBFC_LOG_LEVEL="info")
        self.assertEqual(done.returncode, 0, done.stderr)
        told = re.findall(r"^cubfc: GPU 0: the program allocates by cuMemCreate; the \d\.\d\d GiB that are "
                          r"preallocated serve these requests. CUBFC_PREALLOCATE=false preallocates nothing$", done.stderr, re.M)
        self.assertEqual(len(told), 1, done.stderr)
        for more in ({"CUBFC_PREALLOCATE": "false"}, {"CUBFC_LOG_LEVEL": "warn"}):
            self.assertNotIn("takes its memory by", self.run_under("--", self.allocates, *words, **more).stderr)
        self.assertNotIn("takes its memory by", self.run_under("--", self.allocates, "fill:10", "create:100").stderr)

    def test_two_speakers_and_a_summary(self):
        done = self.run_under("--mem-fraction", "0.5", "--", self.allocates, "fill:100", "ask:1")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stderr.splitlines()
        self.assertRegex(lines[0], r"\Acubfc: preloading libcubfc\.so [0-9.]+\Z")
        self.assertRegex(lines[1], r"\Acubfc: active on GPU 0 .*limit 2\.00 GiB \(CUBFC_MEM_FRACTION\)")
        self.assertRegex(done.stderr, r"\ncubfc: GPU 0: peak 1")
        self.assertNotIn("has allocated no GPU memory", done.stderr)

    def test_quiet(self):
        done = self.run_under("-q", "--", self.allocates, "fill:100", "ask:1")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_the_exit_status_is_the_programs(self):
        for status in (0, 1, 2, 7, 126, 127, 255):
            self.assertEqual(self.run_under("--", "sh", "-c", f"exit {status}").returncode, status)

    def test_a_signal_ends_the_program_and_nothing_else(self):
        for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, signal.SIGINT):
            done = self.run_under("--", "sh", "-c", f"kill -{int(number)} $$")
            self.assertEqual(done.returncode, -number)

    def test_it_is_the_same_process(self):
        process = subprocess.Popen([self.cubfc, "run", "-q", "--", "sh", "-c", "echo $$"], env=self.environment,
                                   stdout=subprocess.PIPE, text=True, **self.user)
        self.assertEqual(int(process.communicate(timeout=PATIENCE)[0]), process.pid)

    def test_no_program(self):
        for words in ((), ("--",), ("-q",), ("--mem-fraction", "0.5"), ("--mem-fraction", "0.5", "--")):
            done = self.run_under(*words)
            self.assertEqual(done.returncode, USAGE, words)
            self.assertIn("which program?", done.stderr)

    def test_no_such_program(self):
        for name in ("no-such-program", "./no-such-program", "/no/such/program", "/etc/passwd/program"):
            done = self.run_under("--", name)
            self.assertEqual(done.returncode, NOT_FOUND, name)
            self.assertIn(name, done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1)
        self.assertEqual(self.run_under("--", "").returncode, NOT_FOUND)

    def test_not_executable(self):
        plain = self.file("plain", "hello", 0o644)
        for path in (plain, str(self.folder)):
            done = self.run_under("--", path)
            self.assertEqual(done.returncode, CANNOT_EXECUTE, path)
            self.assertIn(path, done.stderr)
        without_interpreter = self.file("script", "#!/no/such/interpreter\n")
        done = self.run_under("--", without_interpreter)
        self.assertEqual(done.returncode, CANNOT_EXECUTE)
        self.assertIn("its first line", done.stderr)

    def test_no_rights_in_one_folder_of_the_path(self):
        self.file("one/tool", "", 0o644)
        found = self.file("two/tool", "#!/bin/sh\necho two\n")
        path = f"{self.folder}/one:{self.folder}/two:{self.environment['PATH']}"
        self.assertEqual(self.run_under("-q", "--", "tool", PATH=path).stdout, "two\n")
        os.unlink(found)
        self.assertEqual(self.run_under("-q", "--", "tool", PATH=path).returncode, CANNOT_EXECUTE)

    def test_arguments_are_the_programs_own(self):
        words = ["--mem-fraction", "9", "--", "-q", "a b", "", "*", "--help", "$HOME", "é\n", "--share=auto"]
        show = self.file("show", "#!/bin/sh\nprintf '%s\\0' \"$@\"\n")
        for start in (["--", show], [show], ["-q", show], ["--mem-fraction=0.5", show], ["--mem-fraction", "0.5", show],
                      ["--show-stats", show], ["--preallocate=false", "--", show]):
            done = self.run_under(*start, *words)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stdout.split("\0")[:-1], words, start)

    def test_a_program_with_a_name_like_an_option(self):
        self.file("-q", "#!/bin/sh\necho I am -q\n")
        path = f"{self.folder}:{self.environment['PATH']}"
        self.assertEqual(self.run_under("-q", "--", "-q", PATH=path).stdout, "I am -q\n")

    def test_stdin_and_stdout_are_the_programs(self):
        done = self.run_under("--", "cat", stdin="one\ntwo\n")
        self.assertEqual(done.stdout, "one\ntwo\n")

    def test_a_pipe_that_nobody_reads(self):
        bare = subprocess.run(["bash", "-c", "yes | head -1; echo ${PIPESTATUS[0]}"], capture_output=True, text=True,
                              check=False)
        under = subprocess.run(["bash", "-c", f"'{self.cubfc}' run -q -- yes | head -1; echo ${{PIPESTATUS[0]}}"],
                               env=self.environment, capture_output=True, text=True, check=False, **self.user)
        self.assertEqual(under.stdout, bare.stdout)

    def test_an_ignored_signal_stays_ignored(self):
        done = subprocess.run(["sh", "-c", f"trap '' HUP; '{self.cubfc}' run -q -- sh -c 'kill -HUP $$; echo lives'"],
                              env=self.environment, capture_output=True, text=True, check=False, **self.user)
        self.assertEqual(done.stdout, "lives\n")

    def test_descriptors(self):
        show = "ls /proc/self/fd | wc -l"
        bare = subprocess.run(["sh", "-c", show], capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL)
        under = self.run_under("-q", "--", "sh", "-c", show)
        self.assertEqual(under.stdout, bare.stdout)


class Programs(Run):
    """Of each kind that people start. Each allocates in the process that is started, or in one that it starts."""

    def assert_reached(self, done):
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("cubfc: active on GPU 0", done.stderr)
        self.assertIn("cubfc: GPU 0: peak", done.stderr)

    def test_a_script_with_an_interpreter(self):
        self.assert_reached(self.run_under(self.file("go", f"#!/bin/sh\nexec '{self.allocates}' small piece\n")))

    def test_a_script_without_an_interpreter(self):
        self.assert_reached(self.run_under(self.file("go", f"exec '{self.allocates}' small piece\n")))

    def test_a_script_by_env(self):
        self.assert_reached(self.run_under(self.file("go", f"#!/usr/bin/env sh\n'{self.allocates}' small piece\n")))

    def test_a_shell_that_executes_another(self):
        self.assert_reached(self.run_under("bash", "-c", f"exec bash -c \"exec '{self.allocates}' small piece\""))

    def test_a_path_with_spaces(self):
        path = self.folder / "a folder" / "a program"
        path.parent.mkdir()
        shutil.copy(self.allocates, path)
        self.assert_reached(self.run_under(str(path), "small", "piece"))

    def test_a_relative_path(self):
        done = subprocess.run([self.cubfc, "run", "./program_free_memory", "small", "piece"], cwd=self.programs,
                              env=self.environment, capture_output=True, text=True, check=False, **self.user)
        self.assert_reached(done)

    def python(self):
        """One that the test's user may execute."""
        for path in (sys.executable, "/usr/bin/python3"):
            try:
                if subprocess.run([path, "-c", ""], capture_output=True, check=False, **self.user).returncode == 0:
                    return path
            except OSError:
                continue
        self.skipTest("no Python that whoever has no processes may execute")
        return None

    def test_python(self):
        program = "import ctypes\ncuda = ctypes.CDLL('libcuda.so.1')\n" \
                  "assert cuda.cuInit(0) == 0\ncontext = ctypes.c_void_p()\n" \
                  "assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0\n" \
                  "assert cuda.cuCtxSetCurrent(context) == 0\naddress = ctypes.c_uint64()\n" \
                  "assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(1 << 20)) == 0\n"
        package = self.folder / "package"
        package.mkdir()
        (package / "__main__.py").write_text(program)
        (package / "__init__.py").write_text("")
        for words in (["-c", program], [str(package / "__main__.py")], ["-m", "package"]):
            self.assert_reached(self.run_under(self.python(), *words, PYTHONPATH=str(self.folder)))

    def test_python_of_a_virtual_environment(self):
        made = subprocess.run([self.python(), "-m", "venv", "--without-pip", str(self.folder / "venv")],
                              capture_output=True, check=False)
        if made.returncode != 0:
            self.skipTest("this Python cannot make one")
        python = self.folder / "venv/bin/python"
        for words in ([str(python)], ["python"]):
            done = self.run_under(*words, "-c", "import sys; print(sys.prefix)",
                                  PATH=f"{python.parent}:{self.environment['PATH']}")
            self.assertEqual(done.stdout, f"{self.folder}/venv\n", done.stderr)
        entry = self.file("venv/bin/entry", f"#!{python}\nimport sys\nprint(sys.prefix)\n")
        self.assertEqual(self.run_under(entry).stdout, f"{self.folder}/venv\n")

    def test_a_daemon(self):
        done_file = self.folder / "done"
        daemon = self.file("daemon", "#!/bin/sh\n" f"( setsid sh -c 'exec >/dev/null 2>{self.folder}/said; "
                           f"{self.allocates} small piece; mv {self.folder}/said {done_file}' & ) </dev/null\n")
        os.chmod(self.folder, 0o777)
        done = self.run_under(daemon)
        self.assertEqual(done.returncode, 0)
        wait_until(done_file.exists, lambda: done.stderr)
        self.assertIn("cubfc: GPU 0: peak", done_file.read_text())


class Settings(Run):
    def test_flags_reach_the_program(self):
        environment = self.environment_of("--mem-limit", "2GiB", "--free=deferred", "--preallocate=false",
                                          "--show-stats", "--trace", "a b.%p")
        for name, value in (("MEM_LIMIT", "2GiB"), ("FREE", "deferred"), ("PREALLOCATE", "false"),
                            ("SHOW_STATS", "true"), ("TRACE", "a b.%p")):
            self.assertEqual(environment[f"CUBFC_{name}"], value)

    def test_to_observe_is_to_take_nothing_ahead(self):
        environment = self.environment_of("--observe", CUBFC_PREALLOCATE="true", CUBFC_RESERVE="1GiB")
        self.assertEqual([environment[f"CUBFC_{name}"] for name in ("PREALLOCATE", "RESERVE", "HOST_RESERVE")],
                         ["false", "0", "0"])
        self.assertNotIn("CUBFC_MEM_LIMIT", environment)
        for words in (["--mem-limit", "1GiB"], ["--mem-fraction", "0.5"], ["--share", "2"], ["--preallocate", "true"],
                      ["--group", "g", "--group-limit", "1GiB"], ["--reserve", "1GiB"]):
            done = self.run_under("--observe", *words, "--", "true")
            self.assertEqual(done.returncode, 2, words)
            self.assertRegex(done.stderr, "--observe .*cannot be given with " + words[0])

    def test_who_only_looks_is_told_of_it(self):
        said = "memory is taken ahead; --observe looks without that"
        trace = ("--trace", str(self.folder / "t.cubfc"))
        for words, more, told in ((trace, {}, True), (("--summary", str(self.folder / "s")), {}, True), ((), {}, False),
                                  ((*trace, "--observe"), {}, False), ((*trace, "--mem-limit", "1GiB"), {}, False),
                                  (trace, {"CUBFC_PREALLOCATE": "false"}, False), (("-q", *trace), {}, False)):
            done = self.run_under(*words, "--", self.allocates, "fill:100", "ask:1", **more)
            self.assertEqual(said in done.stderr, told, (words, done.stderr))
        done = self.run_under("--observe", "--", self.allocates, "fill:100", "ask:1", CUBFC_MEM_LIMIT="1GiB")
        self.assertIn("--observe sets no limit; what limits this program is not its own", done.stderr)

    def test_nothing_else_is_changed(self):
        before = self.environment | {"A": "", "B": "x=y z\n"}
        after = self.environment_of(A="", B="x=y z\n")
        self.assertEqual(after.pop("LD_PRELOAD"), self.library)
        self.assertEqual(after, before)

    def test_a_flag_wins_over_its_variable(self):
        environment = self.environment_of("--free", "deferred", CUBFC_FREE="sync", CUBFC_MEM_LIMIT="1GiB")
        self.assertEqual((environment["CUBFC_FREE"], environment["CUBFC_MEM_LIMIT"]), ("deferred", "1GiB"))

    def test_the_last_of_two_flags(self):
        self.assertEqual(self.environment_of("--free", "sync", "--free", "deferred")["CUBFC_FREE"], "deferred")

    def test_what_is_set_already_stays(self):
        done = self.run_under("--", "env", CUBFC_LOG_LEVEL="error", CUBFC_SHOW_STATS="false")
        self.assertIn("CUBFC_LOG_LEVEL=error\n", done.stdout)
        self.assertIn("CUBFC_SHOW_STATS=false\n", done.stdout)

    def test_values_that_cannot_be_used(self):
        for flag, value in (("--mem-limit", "lots"), ("--mem-fraction", "-1"), ("--free", "never"),
                            ("--allocator", ""), ("--preallocate=perhaps", None), ("--log-level", "loud")):
            self.assert_refused([flag] if value is None else [flag, value], flag.split("=")[0])
        self.assert_refused(["--mem-limit", "lots"], 'accepted: ')

    def test_flags_that_nobody_knows(self):
        for words in (["--mem-frction", "0.5"], ["--no-such"], ["-x"]):
            marker = self.folder / "started"
            done = self.run_under(*words, "--", "touch", str(marker))
            self.assertEqual(done.returncode, USAGE)
            self.assertFalse(marker.exists())

    def test_a_limit_of_the_environment_that_cannot_be_used(self):
        """The library would refuse every allocation: that is said before the program is started."""
        self.assert_refused([], "CUBFC_MEM_LIMIT", CUBFC_MEM_LIMIT="lots")
        self.assertEqual(self.environment_of("--mem-limit", "1GiB", CUBFC_MEM_LIMIT="lots")["CUBFC_MEM_LIMIT"], "1GiB")

    def test_disabled(self):
        done = self.run_under("--", self.allocates, "small", "piece", CUBFC_DISABLE="1")
        self.assertIn("it does nothing: CUBFC_DISABLE", done.stderr)
        self.assertNotIn("allocated no GPU memory", done.stderr)

    def test_every_option_is_a_flag(self):
        text = self.run_under("--help").stdout
        options = pathlib.Path(__file__).resolve().parents[3] / "config/options.cpp"
        names = set(re.findall(r'"CUBFC_([A-Z_]+)"', options.read_text()))
        self.assertGreater(len(names), 20)
        for name in names:
            self.assertIn("--" + name.lower().replace("_", "-"), text)


class Preload(Run):
    def test_what_is_preloaded_already_stays_in_front(self):
        other = f"{self.driver}/libcuda.so.1"
        for before, after in ((other, f"{other}:{self.library}"), ("", self.library),
                              (f"{other} libc.so.6", f"{other}:libc.so.6:{self.library}"),
                              (f"::{other}: ", f"{other}:{self.library}")):
            self.assertEqual(self.environment_of(LD_PRELOAD=before)["LD_PRELOAD"], after)

    def test_one_of_us_is_enough(self):
        copy = self.file("copy/libcubfc.so", pathlib.Path(self.library).read_bytes())
        for before in (self.library, copy, f"{copy}:{self.library}"):
            self.assertEqual(self.environment_of(LD_PRELOAD=before)["LD_PRELOAD"], self.library)

    def test_run_in_run(self):
        done = self.run_under("--", self.cubfc, "run", "--", self.allocates, "small", "piece")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stderr.count("GPU 0: peak"), 1, done.stderr)

    def test_another_library(self):
        copy = self.file("copy/libcubfc.so", pathlib.Path(self.library).read_bytes())
        self.assertEqual(self.environment_of("--library", copy)["LD_PRELOAD"], copy)
        for path in ("", str(self.folder), str(self.folder / "none.so")):
            self.assert_refused(["--library", path], "there is no file")
        spaced = self.file("a copy/libcubfc.so", pathlib.Path(self.library).read_bytes())
        self.assert_refused(["--library", spaced], "symbolic link")
        link = self.folder / "link.so"
        link.symlink_to(spaced)
        self.assertEqual(self.environment_of("--library", str(link))["LD_PRELOAD"], str(link))

    def test_the_command_without_its_library(self):
        alone = self.file("alone/cubfc", pathlib.Path(self.cubfc).read_bytes())
        done = subprocess.run([alone, "run", "--", "true"], env=self.environment, capture_output=True, text=True,
                              check=False, **self.user)
        self.assertEqual(done.returncode, USAGE)
        self.assertIn("--library", done.stderr)
        for place in ("lib/libcubfc.so", "shim/libcubfc.so"):
            command = self.file("tree/bin/cubfc", pathlib.Path(self.cubfc).read_bytes())
            library = self.file(f"tree/{place}", pathlib.Path(self.library).read_bytes())
            done = subprocess.run([command, "run", "-q", "--", "env"], env=self.environment, capture_output=True,
                                  text=True, check=False, **self.user)
            self.assertIn(f"LD_PRELOAD={library}\n", done.stdout)
            os.unlink(library)


class Silence(Run):
    """A program that has no use for the GPU says so once, in the process that was started."""
    NOTHING = "has allocated no GPU memory"

    def test_said_once_by_the_program_itself(self):
        done = self.run_under("--", "bash", "-c", "true; bash -c true; ls / >/dev/null; exit 3")
        self.assertEqual(done.returncode, 3)
        self.assertEqual(done.stderr.count(self.NOTHING), 1, done.stderr)
        self.assertRegex(done.stderr.splitlines()[-1], r"\Acubfc: bash -c true; .* \(process \d+\) " + self.NOTHING)

    def test_not_where_it_has_allocated(self):
        done = self.run_under("--", self.allocates, "small", "piece")
        self.assertNotIn(self.NOTHING, done.stderr)

    def test_not_when_it_is_to_be_quiet(self):
        for words, more in ((["-q"], {}), (["--log-level", "warn"], {}), ([], {"CUBFC_LOG_LEVEL": "warn"}),
                            (["--disable"], {})):
            self.assertNotIn(self.NOTHING, self.run_under(*words, "--", "true", **more).stderr)

    def test_in_the_log_file_where_there_is_one(self):
        log = self.folder / "log"
        os.chmod(self.folder, 0o777)
        done = self.run_under("--log-file", str(log), "--", "true")
        self.assertNotIn(self.NOTHING, done.stderr)
        self.assertIn(self.NOTHING, log.read_text())


class Obstacles(Run):
    """What no preload can reach is said, and the program runs all the same."""

    def elf(self, name, *, bits=2, machine=None, interpreter="/lib64/ld-linux-x86-64.so.2", cut=None):
        """The head of a program, with the words that decide."""
        if machine is None:
            machine = struct.unpack_from("<H", pathlib.Path(self.library).read_bytes(), 18)[0]
        path = interpreter.encode() + b"\0" if interpreter else b""
        head = b"\x7fELF" + bytes([bits, 1, 1]) + bytes(9) + struct.pack(
            "<HHIQQQIHHHHHH", 2, machine, 1, 0, 64, 0, 0, 64, 56, 1 if path else 0, 0, 0, 0)
        program = struct.pack("<IIQQQQQQ", 3, 4, 120, 0, 0, len(path), len(path), 1) if path else b""
        return self.file(name, (head + program + path)[:cut])

    def said_of(self, path, **more):
        lines = self.run_under("--", path, **more).stderr.splitlines()
        self.assertIn("preloading", lines[0])
        return "\n".join(lines[1:])

    def test_programs_of_other_kinds(self):
        self.assertIn("32-bit", self.said_of(self.elf("old", bits=1)))
        self.assertIn("another kind of processor", self.said_of(self.elf("foreign", machine=243)))
        self.assertIn("musl", self.said_of(self.elf("alpine", interpreter="/lib/ld-musl-x86_64.so.1")))
        self.assertIn("linked statically", self.said_of(self.elf("static", interpreter="")))

    def test_a_script_is_what_executes_it(self):
        self.elf("python", interpreter="")
        script = self.file("script", "#!/usr/bin/env -S python -u\n")
        said = self.said_of(script, PATH=f"{self.folder}:{self.environment['PATH']}")
        self.assertIn(f"{self.folder}/python, which executes {script}", said)

    def test_a_static_program_runs(self):
        program = next((path for path in ("/sbin/ldconfig", "/usr/bin/busybox", "/bin/busybox")
                        if os.access(path, os.X_OK)), None)
        if program is None:
            self.skipTest("no static program here")
        done = self.run_under("--", program, "--help")
        self.assertIn("linked statically", done.stderr)
        self.assertEqual(done.returncode, 0)

    def test_setuid(self):
        if not self.user:
            self.skipTest("needs root to make a setuid program")
        program = self.file("changes", pathlib.Path("/bin/true").read_bytes())
        os.chmod(program, 0o4755)
        self.assertIn("is setuid", self.said_of(program))

    def test_heads_of_all_lengths(self):
        """What is no program is for the kernel to refuse, or for a shell to read: as without us."""
        heads = [self.elf(f"cut{cut}", cut=cut) for cut in range(0, 148, 3)]
        for at in range(16, 64):
            broken = bytearray(pathlib.Path(self.elf("whole")).read_bytes())
            broken[at] ^= 0xff
            heads.append(self.file(f"broken{at}", bytes(broken)))
        for head in heads:
            bare = subprocess.run(["env", head], env=self.environment, capture_output=True, check=False, **self.user)
            done = self.run_under("--", head)
            self.assertEqual(done.returncode, bare.returncode, f"{head}: {done.stderr}")


class Share(Run):
    def fraction(self, *words, **more):
        return self.environment_of("--share", *words, **more)["CUBFC_MEM_FRACTION"]

    def test_numbers(self):
        self.assertEqual(self.fraction("1"), "1")
        self.assertEqual(self.fraction("3"), "0.333333")
        self.assertEqual(self.fraction("8"), "0.125000")
        for share in ("0", "-1", "1.5", "many", "99999999999999999999", "1025"):
            self.assert_refused([f"--share={share}"], "--share")
        self.assert_refused(["--share", ""], "--share")

    def test_launchers(self):
        for more, fraction in (
                ({"LOCAL_WORLD_SIZE": "8", "CUDA_VISIBLE_DEVICES": "0,1"}, "0.250000"),
                ({"LOCAL_WORLD_SIZE": "5", "CUDA_VISIBLE_DEVICES": "GPU-1,GPU-2"}, "0.333333"),
                ({"OMPI_COMM_WORLD_LOCAL_SIZE": "4", "CUDA_VISIBLE_DEVICES": "0"}, "0.250000"),
                ({"MPI_LOCALNRANKS": "2", "CUDA_VISIBLE_DEVICES": "0,1,2,3"}, "1"),
                ({"SLURM_STEP_TASKS_PER_NODE": "4(x2),6", "SLURM_NODEID": "2", "SLURM_GPUS_ON_NODE": "2",
                  "CUDA_VISIBLE_DEVICES": "0"}, "0.333333"),
                ({"SLURM_TASKS_PER_NODE": "4", "SLURM_GPUS_ON_NODE": "4"}, "1")):
            self.assertEqual(self.fraction("auto", **more), fraction, more)

    @unittest.skipIf(os.path.exists("/dev/nvidia0"), "this machine's GPUs are counted")
    def test_gpus_that_only_the_driver_knows(self):
        """As under WSL2 and on a Jetson."""
        for devices, fraction in (("1", "0.250000"), ("2", "0.500000"), ("4", "1")):
            self.assertEqual(self.fraction("auto", LOCAL_WORLD_SIZE="4", STANDIN_DEVICES=devices), fraction)
        self.assert_refused(["--share", "auto"], "the driver shows none", LOCAL_WORLD_SIZE="4", LD_LIBRARY_PATH="/nowhere")

    def test_no_launcher(self):
        self.assert_refused(["--share", "auto"], "LOCAL_WORLD_SIZE")
        self.assert_refused(["--share", "auto"], "LOCAL_WORLD_SIZE", LOCAL_WORLD_SIZE="some",
                            SLURM_TASKS_PER_NODE="4(x", SLURM_NODEID="-1")

    def test_not_beside_another_limit(self):
        for flag, value in (("--mem-fraction", "0.5"), ("--mem-limit", "1GiB")):
            self.assert_refused(["--share", "2", flag, value], "--share is a limit")

    def test_all_of_them_fit(self):
        """As many processes as share the GPU each take all they may, at the same time."""
        processes = [self.start_run("--share", "3", "--", self.allocates, "fill:1300", "wait") for _ in range(3)]
        self.assertTrue(all(processes))

    def start_run(self, *words):
        process = subprocess.Popen(
            [self.cubfc, "run", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env=self.environment | {"STANDIN_SHARED": str(self.folder / "devices")}, text=True, **self.user)
        self.addCleanup(self.end, process)
        return re.match(r"1300 ", process.stdout.readline())


class Terminal(Run):
    """A shell with job control on a terminal of its own, as a user has it."""

    def setUp(self):
        super().setUp()
        environment = self.environment | {"PS1": "", "TERM": "dumb", "CUBFC": self.cubfc}
        master, slave = pty.openpty()
        os.chmod(os.ttyname(slave), 0o666)
        self.terminal = os.ttyname(slave)
        self.shell = subprocess.Popen(["setsid", "--ctty", "--wait", "bash", "--norc", "--noprofile", "--noediting", "-i"],
                                      env=environment, stdin=slave, stdout=slave, stderr=slave, **self.user)
        os.close(slave)
        self.master, self.seen = master, ""
        self.addCleanup(self.leave)
        self.type("stty -echo; echo READY''NOW\n")
        self.expect("READYNOW")

    def leave(self):
        os.close(self.master)
        self.shell.kill()
        self.shell.wait(timeout=PATIENCE)

    def type(self, text):
        os.write(self.master, text.encode())

    def expect(self, pattern):
        deadline = time.monotonic() + PATIENCE
        while not (found := re.search(pattern, self.seen)):
            if time.monotonic() > deadline or not select.select([self.master], [], [], 1)[0]:
                if time.monotonic() > deadline:
                    raise AssertionError(f"{pattern} has not come: {self.seen}")
                continue
            self.seen += os.read(self.master, 4096).decode(errors="replace")
        self.seen = self.seen[found.end():]
        return found

    def test_interrupt(self):
        self.type("$CUBFC run -q -- sleep 1000\n")
        wait_until(lambda: self.foreground() == "sleep", lambda: self.seen)
        self.type("\x03")
        wait_until(lambda: self.foreground() == "bash", lambda: self.seen)
        self.type("echo status $?\n")
        self.expect("status 130")

    def test_stop_and_continue(self):
        self.type("$CUBFC run -q -- cat\n")
        wait_until(lambda: self.foreground() == "cat", lambda: self.seen)
        self.type("hello\n")
        self.expect("hello")
        self.type("\x1a")
        self.expect("Stopped")
        self.type("fg\n")
        wait_until(lambda: self.foreground() == "cat", lambda: self.seen)
        self.type("again\n")
        self.expect("again")
        self.type("\x04")
        wait_until(lambda: self.foreground() == "bash", lambda: self.seen)

    def test_a_shell_under_it_has_job_control(self):
        self.type("$CUBFC run -q -- bash --norc --noprofile --noediting -i\n")
        wait_until(lambda: self.foreground() == "bash", lambda: self.seen)
        self.type("echo in''side; sleep 1000\n")
        self.expect("inside")
        wait_until(lambda: self.foreground() == "sleep", lambda: self.seen)
        self.type("\x1a")
        self.expect("Stopped")
        self.type("kill -9 %1; wait; echo left''over\n")
        self.expect("leftover")
        self.type("exit\n")
        self.type("echo out''side\n")
        self.expect("outside")

    def foreground(self):
        """The name of the process that has the terminal."""
        group = os.tcgetpgrp(self.master)
        try:
            return pathlib.Path(f"/proc/{group}/comm").read_text().strip()
        except OSError:
            return None


if __name__ == "__main__":
    run_tests(__doc__)
