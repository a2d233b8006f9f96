#!/usr/bin/env python3
"""The packages, each in an empty place: what a user gets, and that nothing is left when it is taken out.

usage: packages_test.py PACKAGES_FOLDER DRIVER_FOLDER PROGRAM SOURCE_FOLDER

TEST_EMULATOR="qemu-aarch64 -L ROOT": only those for another architecture are tested, which that runs; driver and
program are of that architecture then.

Roots of distributions come from their archives, by mmdebstrap, for which it must be root; without them their tests
are skipped.
"""
import gzip
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

if len(sys.argv) < 5:
    sys.exit(__doc__)
PACKAGES, DRIVER, PROGRAM, SOURCES = (pathlib.Path(argument).resolve() for argument in sys.argv[1:5])
OLDEST_GLIBC = (2, 34)  # of Ubuntu 22.04, Debian 12 and RHEL 9
EMULATOR = os.environ.get("TEST_EMULATOR", "").split()


def package(pattern):
    """The one that there is; its tests are skipped where it has not been built."""
    found = sorted(PACKAGES.glob(pattern))
    if not found:
        raise unittest.SkipTest(f"there is no {pattern} in {PACKAGES}")
    if len(found) > 1:
        raise AssertionError(f"more than one {pattern} in {PACKAGES}: {[path.name for path in found]}")
    return found[0]


def run(*words, **more):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=600, check=False, **more)
    if done.returncode != 0:
        raise AssertionError(f"{words}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def files_under(folder):
    return {path.relative_to(folder) for path in folder.rglob("*")}


class Package(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="cubfc-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def assert_works(self, command, library, start=()):
        """`start`: what comes before the words, such as chroot."""
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LD_LIBRARY_PATH": str(DRIVER), "STANDIN_MEMORY": "1GiB"}
        self.assertRegex(run(*start, command, "--version", env=environment).stdout, r"\Acubfc \d+\.\d+\.\d+\n\Z")
        self.assertEqual(run(*start, command, "--library", env=environment).stdout, f"{library}\n")
        self.assertIn(f"LD_PRELOAD={library}\n", run(*start, command, "run", "-q", "env", env=environment).stdout)
        if not start:
            done = run(command, "run", "--mem-limit", "512MiB", "--", PROGRAM, "fill:100", "ask:1", env=environment)
            self.assertIn("cubfc: preloading libcubfc.so", done.stderr)
            self.assertIn("cubfc: active on GPU 0", done.stderr)
            self.assertIn("limit 512.0 MiB", done.stderr)
            self.assertRegex(run(command, "check", PROGRAM, env=environment).stdout, r"1 MiB allocated by the library")
        self.assertIn("_cubfc", run(*start, command, "completion", "bash", env=environment).stdout)

    def assert_old_enough(self, *files, also=()):
        """They load where the C library is no newer than the oldest that is promised, and need no other library but `also`."""
        for file in files:
            told = run("readelf", "--wide", "--dynamic", "--dyn-syms", file).stdout
            needed = {tuple(map(int, version.split("."))) for version in re.findall(r"@GLIBC_([0-9.]+)", told)}
            self.assertLessEqual(max(needed), OLDEST_GLIBC, file)
            libraries = set(re.findall(r"\(NEEDED\).*\[(.*?)\.so", told))
            self.assertIn("libc", libraries, file)
            self.assertLessEqual(libraries, {"libc", "libm", "libz", "ld-linux-x86-64", "ld-linux-aarch64", *also}, file)


class Wheel(Package):
    def setUp(self):
        super().setUp()
        self.wheel = package("cubfc-*_x86_64.whl")
        run(sys.executable, "-m", "venv", self.folder / "v")
        self.python, self.command = self.folder / "v/bin/python", self.folder / "v/bin/cubfc"
        self.before = files_under(self.folder)
        run(self.python, "-m", "pip", "install", "--no-index", "--quiet", "--no-compile", self.wheel)

    def library(self):
        return next((self.folder / "v/lib").glob("python3.*/site-packages/cubfc/lib/libcubfc.so"))

    def test_what_is_in_it_works(self):
        self.assertRegex(self.wheel.name, r"-py3-none-manylinux_2_34_(x86_64|aarch64)\.whl\Z")
        self.assert_works(self.command, self.library())
        self.assert_old_enough(self.command, self.library())
        self.assertTrue((self.folder / "v/share/man/man1/cubfc.1.gz").exists())

    def test_the_command_starts_no_python(self):
        self.assertEqual(self.command.read_bytes()[:4], b"\x7fELF")

    def test_from_python(self):
        environment = {"PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": str(DRIVER)}
        told = run(self.python, "-c", "import cubfc; print(cubfc.library(), cubfc.__version__, cubfc.stats())", env=environment)
        version = run(self.command, "--version").stdout.split()[1]
        self.assertEqual(told.stdout, f"{self.library()} {version} None\n")
        program = "import cubfc; cubfc.apply(mem_limit='1GiB'); import os; print(cubfc.is_active(), os.environ['CUBFC_MEM_LIMIT'])"
        self.assertEqual(run(self.python, "-c", program, env=environment).stdout, "True 1GiB\n")

    def test_taken_out_nothing_is_left(self):
        run(self.python, "-m", "pip", "uninstall", "--yes", "--quiet", "cubfc")
        left = files_under(self.folder) - self.before
        self.assertEqual({path for path in left if not path.name == "__pycache__" and (self.folder / path).is_file()}, set())


class SoftwareGpuWheel(Package):
    def test_with_it_cubfc_demo_shows_what_it_has_to(self):
        run(sys.executable, "-m", "venv", self.folder / "v")
        run(self.folder / "v/bin/python", "-m", "pip", "install", "--no-index", "--quiet", package("cubfc-*_x86_64.whl"),
            package("cubfc_software_gpu-*_x86_64.whl"))
        done = run(self.folder / "v/bin/cubfc", "demo", cwd=self.folder, env={"PATH": "/usr/bin:/bin"})
        self.assertIn("over the limit (1.50 GiB of 1.50 GiB taken)", done.stderr)
        self.assertRegex(done.stdout, r"training.cpp:\d+ \(keep_logits\)")
        self.assertTrue((self.folder / "cubfc-demo/training.html").is_file())
        [driver] = (self.folder / "v/lib").glob("python3.*/site-packages/cubfc_software_gpu/libcuda.so.1")
        self.assert_old_enough(driver, driver.parent / "training", also=("libcuda", "libgcc_s"))
        told = run(self.folder / "v/bin/python", "-c", "import cubfc_software_gpu; print(cubfc_software_gpu.folder())")
        self.assertEqual(told.stdout, f"{driver.parent}\n")

    def test_the_extra_of_cubfc_names_it(self):
        with zipfile.ZipFile(package("cubfc-*_x86_64.whl")) as wheel:
            [metadata] = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
            text = wheel.read(metadata).decode()
        self.assertRegex(text, r"Requires-Dist: cubfc-software-gpu; ?extra == ['\"]demo['\"]")
        self.assertIn("License-Expression: Apache-2.0", text)


def make_root(test, suite, *options):
    """A folder with a distribution in it, which goes when the class `test` is through."""
    if os.geteuid() != 0 or not shutil.which("mmdebstrap"):
        raise unittest.SkipTest("needs root and mmdebstrap")
    root = pathlib.Path(tempfile.mkdtemp(prefix="cubfc-root-"))
    test.addClassCleanup(shutil.rmtree, root, ignore_errors=True)
    made = subprocess.run(["mmdebstrap", "--mode=root", "--quiet", *options, suite, str(root), *ARCHIVES[suite]],
                          capture_output=True, text=True, check=False)
    if made.returncode != 0:
        raise unittest.SkipTest(f"mmdebstrap {suite}: " + made.stderr[-300:])
    return root


ARCHIVES = {suite: [f"deb [trusted=yes] {archive} {suite} main"]
            for suite, archive in (("bookworm", "http://deb.debian.org/debian"), ("trixie", "http://deb.debian.org/debian"),
                                   ("jammy", "http://archive.ubuntu.com/ubuntu"), ("noble", "http://archive.ubuntu.com/ubuntu"))}


class InRoot(Package):
    """What is installed in a root of a distribution's."""
    root = None

    @property
    def start(self):
        """What comes before a command's words: with /proc, as every container has it, and nobody else sees that."""
        enter = 'mkdir -p "$0/proc" && mount -t proc proc "$0/proc" && exec chroot "$0" "$@"'
        return ("unshare", "--mount", "sh", "-c", enter, self.root)

    def inside(self, *words):
        return run(*self.start, *words, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive"})

    def assert_runs_programs(self):
        """On the software driver, which is lent to the root for the time."""
        shutil.copy(PROGRAM, self.root / "program")
        shutil.copytree(DRIVER, self.root / "driver")
        shutil.copy(SOURCES / "tests/gpu/behaviour/documented.json", self.root / "driver/behaviour.json")
        driver = ("env", "LD_LIBRARY_PATH=/driver", "STANDIN_BEHAVIOUR=/driver/behaviour.json")
        told = self.inside(*driver, "cubfc", "check", "/program").stdout
        self.assertIn("1 MiB allocated by the library", told)
        ran = self.inside(*driver, "cubfc", "run", "--mem-limit", "512MiB", "--", "/program", "fill:100", "ask:1")
        self.assertIn("cubfc: active on GPU 0", ran.stderr)
        os.unlink(self.root / "program")
        shutil.rmtree(self.root / "driver")
        for folder in self.root.glob("dev/shm/cubfc-*"):
            folder.rmdir()  # the user's, not the package's; it is empty by now


class Debian(InRoot):
    @classmethod
    def setUpClass(cls):
        cls.packages = [package("cubfc_*_amd64.deb"), package("cubfc-software-gpu_*_amd64.deb")]
        cls.root = make_root(cls, "bookworm", "--variant=minbase", "--include=zlib1g,bash-completion")
        for name, path in zip(("cubfc.deb", "software-gpu.deb"), cls.packages):
            shutil.copy(path, cls.root / name)

    def test_it_is_installed_works_and_is_taken_out(self):
        before = files_under(self.root)
        self.inside("dpkg", "--install", "/cubfc.deb")
        listed = {path for path in self.inside("dpkg", "--listfiles", "cubfc").stdout.split() if "." in path or "bin/" in path}
        library = next(path for path in listed if path.endswith("/libcubfc.so"))
        self.assertRegex(library, r"\A/usr/lib/[\w-]+-linux-gnu/libcubfc\.so\Z")
        self.assert_works("/usr/bin/cubfc", library, self.start)
        self.assert_old_enough(self.root / "usr/bin/cubfc", self.root / library[1:])
        for path in ("usr/share/man/man1/cubfc.1.gz", "usr/include/cubfc.h", "usr/share/zsh/site-functions/_cubfc",
                     "usr/share/fish/vendor_completions.d/cubfc.fish"):
            self.assertTrue((self.root / path).is_file(), path)
        page = gzip.decompress((self.root / "usr/share/man/man1/cubfc.1.gz").read_bytes()).decode()
        self.assertIn(".SH OPTIONS", page)
        completed = self.inside("bash", "-c", ". /usr/share/bash-completion/bash_completion; _completion_loader cubfc; "
                                "COMP_WORDS=(cubfc tri); COMP_CWORD=1; _cubfc; echo $COMPREPLY")
        self.assertEqual(completed.stdout, "trim\n")
        self.assert_runs_programs()
        self.assertEqual(self.inside("sh", "-c", "LD_PRELOAD=libcubfc.so /bin/true").stderr, "")  # found as a library of the system's
        self.inside("dpkg", "--install", "/software-gpu.deb")
        shown = self.inside("cubfc", "demo", "--folder", "/demo")
        self.assertIn("over the limit (1.50 GiB of 1.50 GiB taken)", shown.stderr)
        self.assertIn("keep_logits", shown.stdout)
        self.assertTrue((self.root / "demo/training.html").is_file())
        shutil.rmtree(self.root / "demo")
        for folder in self.root.glob("dev/shm/cubfc-*"):
            shutil.rmtree(folder)
        self.inside("dpkg", "--purge", "cubfc-software-gpu", "cubfc")
        left = {path for path in files_under(self.root) - before if not str(path).startswith(("var/lib/dpkg", "var/log", "var/cache"))}
        self.assertEqual(left, set())

    def test_lintian_has_nothing_to_say(self):
        if not shutil.which("lintian"):
            self.skipTest("there is no lintian")
        done = subprocess.run(["lintian", "--allow-root", "--fail-on", "warning", *map(str, self.packages)], capture_output=True, text=True,
                              check=False)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)

    def test_documents_and_whose_code_is_inside_are_in_it(self):
        listed = run("dpkg-deb", "--contents", self.packages[0]).stdout
        for name in ("LICENSE", "README.md", "docs/starting.md", "docs/deploy/examples/cubfc-cdi.yaml", "copyright", "changelog.gz"):
            self.assertIn(f"./usr/share/doc/cubfc/{name}", listed)


class Distribution:
    """The package's files among a distribution's, which need not be set up for that. RHEL 9 has the C library of
    Ubuntu 22.04's age: what symbols are needed says whether it loads there (assert_old_enough)."""
    suite = ""

    @classmethod
    def setUpClass(cls):
        cls.root = make_root(cls, cls.suite, "--variant=extract", "--include=coreutils,dash,zlib1g,base-files,libstdc++6")
        run("dpkg-deb", "--extract", package("cubfc_*_amd64.deb"), cls.root)

    def test_it_runs_programs_there(self):
        self.assert_runs_programs()

    def test_also_where_there_is_no_proc(self):
        done = run("unshare", "--mount", "chroot", self.root, "/usr/bin/cubfc", "run", "-q", "env", env={"PATH": "/usr/sbin:/usr/bin:/bin"})
        self.assertRegex(done.stdout, r"LD_PRELOAD=/usr/lib/[\w-]+/libcubfc\.so\n")
        self.assertEqual(done.stderr, "")


class Debian13(Distribution, InRoot):
    suite = "trixie"


class Ubuntu2204(Distribution, InRoot):
    suite = "jammy"


class Ubuntu2404(Distribution, InRoot):
    suite = "noble"


class Archive(Package):
    def setUp(self):
        super().setUp()
        run("tar", "-xzf", package("cubfc-*-x86_64.tar.gz"), "-C", self.folder)
        unpacked = next(self.folder.iterdir())
        self.place = self.folder / "somewhere else"
        unpacked.rename(self.place)

    def test_it_works_anywhere(self):
        library = next(self.place.rglob("libcubfc.so"))
        shutil.move(self.place, self.folder / "place")  # LD_PRELOAD takes no spaces, and the command says so
        library = self.folder / "place" / library.relative_to(self.place)
        self.assert_works(self.folder / "place/bin/cubfc", library)
        self.assert_old_enough(library)

    def test_a_folder_with_spaces_is_refused_with_a_remedy(self):
        done = subprocess.run([str(self.place / "bin/cubfc"), "run", "true"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("symbolic link", done.stderr)

    def test_find_package(self):
        if not shutil.which("cmake"):
            self.skipTest("there is no cmake")
        (self.folder / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(consumer C)\nfind_package(cubfc 0.1 REQUIRED)\n"
            "add_executable(consumer consumer.c)\ntarget_link_libraries(consumer PRIVATE cubfc::cubfc)\n"
            "message(STATUS \"library=${CUBFC_LIBRARY}\")\n")
        (self.folder / "consumer.c").write_text(
            "#define _GNU_SOURCE\n#include <cubfc.h>\n#include <dlfcn.h>\n#include <stdio.h>\n"
            "int main(void) {\n  cubfc_version_function *version = (cubfc_version_function *)dlsym(RTLD_DEFAULT, \"cubfc_version\");\n"
            "  puts(version ? version() : \"none\");\n  return 0;\n}\n")
        configured = run("cmake", "-S", self.folder, "-B", self.folder / "b", f"-DCMAKE_PREFIX_PATH={self.place}").stdout
        library = re.search(r"library=(.*)", configured)[1]
        self.assertTrue(pathlib.Path(library).is_file(), library)
        run("cmake", "--build", self.folder / "b")
        self.assertEqual(run(self.folder / "b/consumer").stdout, "none\n")
        os.symlink(library, self.folder / "l.so")
        self.assertEqual(run(self.folder / "b/consumer", env={"LD_PRELOAD": str(self.folder / "l.so")}).stdout, "0.1.0\n")

    def test_nothing_of_where_it_was_built_is_in_it(self):
        for path in self.place.rglob("*"):
            if path.is_file():
                self.assertNotIn(str(SOURCES).encode(), path.read_bytes(), path)


@unittest.skipUnless(EMULATOR, "of this machine's architecture")
class Emulated(Package):
    """Packages for another architecture, whose programs TEST_EMULATOR runs."""

    def unpacked(self):
        shutil.unpack_archive(package("cubfc-*-aarch64.tar.gz"), self.folder / "t")
        yield next((self.folder / "t").iterdir())
        run("dpkg-deb", "--extract", package("cubfc_*_arm64.deb"), self.folder / "d")
        yield self.folder / "d/usr"
        shutil.unpack_archive(package("cubfc-*_aarch64.whl"), self.folder / "w", "zip")
        yield self.folder / "w"

    def test_they_load_and_serve(self):
        for folder in self.unpacked():
            [library] = folder.rglob("libcubfc.so")
            [command] = (path for path in folder.rglob("cubfc") if path.is_file() and path.read_bytes()[:4] == b"\x7fELF")
            command.chmod(0o755)  # pip does that; unpacking a zip file does not
            self.assertTrue(list(folder.rglob("cubfc.1.gz")))
            self.assert_old_enough(library, command)
            self.assertIn("AArch64", run("readelf", "--file-header", library).stdout)
            self.assertRegex(run(*EMULATOR, command, "--version").stdout, r"\Acubfc \d+\.\d+\.\d+\n\Z")
            words = (f"LD_LIBRARY_PATH={DRIVER}", PROGRAM, "fill:100", "ask:1")
            bare = run(*EMULATOR, "-E", *words)
            under = run(*EMULATOR, "-E", f"LD_PRELOAD={library}", "-E", "CUBFC_SHOW_STATS=1", "-E", *words)
            self.assertEqual(under.stdout.split()[0], bare.stdout.split()[0])
            self.assertRegex(under.stderr, r"peak 101\.0 MiB of .*, 2 allocations \(\d+ driver calls")
            # Each call passes a gate. (What it takes to sleep, qemu-user does not have.)
            gated = run(*EMULATOR, "-E", f"LD_PRELOAD={library.with_name('libcubfc_sleep.so')}", "-E", "CUBFC_SLEEP=true",
                        "-E", "CUBFC_SHOW_STATS=1", "-E", *words)
            self.assertEqual(gated.stdout.split()[0], bare.stdout.split()[0])
            self.assertRegex(gated.stderr, r"peak 101\.0 MiB of .*, 2 allocations")

    def test_what_a_package_says_of_itself(self):
        self.assertEqual(run("dpkg-deb", "--field", package("cubfc_*_arm64.deb"), "Architecture").stdout, "arm64\n")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + (sys.argv[5:] or ["Emulated"] * bool(EMULATOR)))
