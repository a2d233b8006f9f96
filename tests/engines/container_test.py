#!/usr/bin/env python3
"""Containers of a real Docker or Podman on the software driver, limited by the CDI device of docs/deploy/examples. As root.

usage: container_test.py ENGINE CUBFC DRIVER_FOLDER LIBRARY PROGRAM EXAMPLES_FOLDER [ROOT]

ENGINE: docker or podman. ROOT: a folder with a distribution in it, whose engine is taken instead of this machine's.

The test runs in a mount namespace of its own, in which /etc/cdi, /opt/cubfc and the engine's storage are its own; nothing of the
machine's is touched. Skipped (exit status 77) where the engine is missing, or such a namespace cannot be had.
"""
import contextlib
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

if len(sys.argv) < 7:
    sys.exit(__doc__)
ENGINE = sys.argv[1]
CUBFC, DRIVER, LIBRARY, PROGRAM, EXAMPLES = (pathlib.Path(path).resolve() for path in sys.argv[2:7])
ROOT = pathlib.Path(sys.argv[7]).resolve() if sys.argv[7:] else pathlib.Path("/")
SECONDS = 120
MIB = 1 << 20
GRANTED = 20 * 1024  # MiB, by cubfc.dev/limit=20g
OWN_NAMESPACE = "CONTAINER_TEST_NAMESPACE"
IMAGE = "cubfc-test:1"
DEVICES = "/dev/shm/devices"  # where the processes of a container have one GPU
# Neither engine may set limits of the kernel's for a process that this machine does not let it raise.
CONTAINERS_CONF = "[containers]\ndefault_ulimits = []\n"
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root",
               "CONTAINERS_CONF": "/run/cubfc-test-containers.conf"}
# No networks: they need the machine's firewall.
DAEMON = '{"features": {"cdi": true}, "iptables": false, "ip6tables": false, "bridge": "none"}'
daemon = root_holder = None


def inside(*words):
    """A command's words, in ROOT."""
    return [*(["nsenter", f"--mount=/proc/{root_holder.pid}/ns/mnt"] if root_holder else []), *map(str, words)]


def run(*words, **more):
    return subprocess.run(inside(*words), env=ENVIRONMENT, capture_output=True, text=True, timeout=SECONDS, check=False,
                          stdin=subprocess.DEVNULL, **more)


def must(*words):
    done = run(*words)
    if done.returncode != 0:
        raise AssertionError(f"{words}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def mount(*words):
    subprocess.run(["mount", *map(str, words)], check=True)


def place_what_a_host_has():
    """/opt/cubfc and /etc/cdi, as docs/deploy/containers.md says."""
    # crun does not take both kinds of control groups at once.
    subprocess.run(["umount", "/sys/fs/cgroup/unified"], check=False, stderr=subprocess.DEVNULL)
    if ROOT != pathlib.Path("/"):
        mount("--bind", ROOT, ROOT)  # engines want a root that is a mount of its own
    for folder in ("run", "etc/cdi", "opt/cubfc", "var/lib/docker", "var/lib/containers"):
        (ROOT / folder).mkdir(parents=True, exist_ok=True)
        mount("-t", "tmpfs", "none", ROOT / folder)
    if ROOT != pathlib.Path("/"):
        mount("-t", "proc", "proc", ROOT / "proc")
        mount("--rbind", "/sys", ROOT / "sys")
        mount("--rbind", "/dev", ROOT / "dev")
        mount("-t", "tmpfs", "none", ROOT / "tmp")
    for path, source in {"lib/libcubfc.so": LIBRARY, "bin/cubfc": CUBFC, "etc/ld.so.preload": EXAMPLES / "ld.so.preload",
                         **{f"etc/{path.name}": path for path in EXAMPLES.glob("cubfc-*.conf")}}.items():
        place = ROOT / "opt/cubfc" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, place)
    shutil.copy(EXAMPLES / "cubfc-cdi.yaml", ROOT / "etc/cdi/cubfc.yaml")
    (ROOT / "run/cubfc-test-containers.conf").write_text(CONTAINERS_CONF)


def hold_root():
    """ROOT becomes the root of a mount namespace: with a mere chroot, what Docker executes in a container is outside of it."""
    global root_holder  # pylint: disable=global-statement
    if ROOT == pathlib.Path("/"):
        return
    script = 'cd "$0" && mkdir -p run/outside && pivot_root . run/outside && umount -l run/outside && echo && exec sleep infinity'
    root_holder = subprocess.Popen(["unshare", "--mount", "sh", "-c", script, ROOT], stdout=subprocess.PIPE)
    root_holder.stdout.readline()


def make_image():
    """A shell, the program, the driver, and the libraries that they need: no distribution."""
    files = {"/app": PROGRAM, "/driver/libcuda.so.1": DRIVER / "libcuda.so.1", "/bin/sh": pathlib.Path(shutil.which("dash"))}
    for name in ("env", "kill", "touch"):
        files[f"/bin/{name}"] = pathlib.Path(shutil.which(name))
    for binary in list(files.values()) + [CUBFC]:
        told = subprocess.run(["ldd", binary], capture_output=True, text=True, check=True, env={"LD_LIBRARY_PATH": str(DRIVER)}).stdout
        for path in re.findall(r"(/\S+) \(0x", told):
            if not path.startswith(str(DRIVER)):
                files[path] = pathlib.Path(path)
    with tarfile.open(ROOT / "run/image.tar", "w") as image:
        for path, source in files.items():
            entry = image.gettarinfo(os.path.realpath(source), path.lstrip("/"))
            entry.uid = entry.gid = 0
            with open(source, "rb") as content:
                image.addfile(entry, content)
        for folder in ("etc", "tmp"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            image.addfile(entry)
    must(ENGINE, "import", *(word for setting in ("LD_LIBRARY_PATH=/driver", "STANDIN_MEMORY=80GiB", f"STANDIN_SHARED={DEVICES}", "PATH=/bin")
                             for word in ("--change", f"ENV {setting}")), "/run/image.tar", IMAGE)
    (ROOT / "run/image.tar").unlink()


def start_daemon():
    global daemon  # pylint: disable=global-statement
    if ENGINE != "docker":
        return
    (ROOT / "run/daemon.json").write_text(DAEMON)
    with (ROOT / "run/daemon.log").open("w") as log:
        daemon = subprocess.Popen(inside("dockerd", "--config-file", "/run/daemon.json"), stdout=log, stderr=log,
                                  env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
    deadline = time.monotonic() + SECONDS
    while run("docker", "version").returncode != 0:
        if time.monotonic() > deadline or daemon.poll() is not None:
            raise RuntimeError((ROOT / "run/daemon.log").read_text()[-3000:])
        time.sleep(0.1)


def setUpModule():
    place_what_a_host_has()
    hold_root()
    start_daemon()
    make_image()
    print(must(ENGINE, "--version"), end="", flush=True)


def tearDownModule():
    for name in must(ENGINE, "ps", "-a", "-q").split():
        run(ENGINE, "kill", name)
        run(ENGINE, "rm", "-f", name)
    if daemon:
        daemon.terminate()
        daemon.wait(timeout=SECONDS)
    if root_holder:
        root_holder.kill()
        root_holder.wait()


class Containers(unittest.TestCase):
    @contextlib.contextmanager
    def container(self, *program, options=()):
        """One that runs `program`, and has said its first line. Gives its name."""
        name = f"c{time.monotonic_ns()}"
        must(ENGINE, "run", "-d", "--network", "none", "--name", name, "--device", "cubfc.dev/limit=20g", *options, IMAGE, *program)
        try:
            self.wait_for_lines(name, 1)
            yield name
        finally:
            run(ENGINE, "kill", name)  # "rm -f" alone waits, as the program is deaf to SIGTERM: it is process 1
            run(ENGINE, "rm", "-f", name)

    def wait_for_lines(self, name, count):
        """Of the container's output. One that ends before has said too little."""
        with subprocess.Popen(inside(ENGINE, "logs", "--follow", name), env=ENVIRONMENT, stdout=subprocess.PIPE, text=True) as log:
            try:
                for _ in range(count):
                    self.assertNotEqual(log.stdout.readline(), "", f"{name} has said too little")
            finally:
                log.kill()

    def run_one(self, *program, options=(), device="cubfc.dev/limit=20g"):
        """It writes into files: of one that ends at once Docker loses the output now and then, without cubfc, too."""
        said = ROOT / f"run/said{time.monotonic_ns()}"
        said.mkdir()
        said.chmod(0o777)  # for the container's other users
        done = run(ENGINE, "run", "--rm", "--network", "none", "--device", device, *options, "-v", f"/run/{said.name}:/said", IMAGE,
                   "/bin/sh", "-c", 'exec "$@" > /said/out 2> /said/err', "sh", *program)
        self.assertTrue((said / "err").exists(), done.stderr)
        return subprocess.CompletedProcess(program, done.returncode, (said / "out").read_text(), (said / "err").read_text())

    def execute(self, name, *words, options=()):
        return run(ENGINE, "exec", *options, name, *words)

    def assert_about(self, taken, wanted=GRANTED):
        self.assertGreaterEqual(taken, 0.98 * wanted)
        self.assertLessEqual(taken, wanted)

    def got(self, done):
        """MiB that `fill:N sum` has, of both."""
        self.assertRegex(done.stdout, r"^\d+ \d+ \d+\n$", done.stderr)
        live, _, more = map(int, done.stdout.split())
        return live + more

    def test_a_program_has_the_devices_size(self):
        self.assert_about(self.got(self.run_one("/app", "fill:100", "sum")))
        self.assert_about(self.got(self.run_one("/app", "fill:100", "sum", device="cubfc.dev/limit=40g")), 2 * GRANTED)

    def test_what_exec_starts_has_what_the_container_has_left(self):
        with self.container("/app", "fill:8000", "hold") as name:
            self.assert_about(8000 + self.got(self.execute(name, "/app", "fill:100", "sum")))
            without = ("/bin/env", "-i", "LD_LIBRARY_PATH=/driver", "STANDIN_MEMORY=80GiB", f"STANDIN_SHARED={DEVICES}")
            self.assert_about(8000 + self.got(self.execute(name, *without, "/app", "fill:100", "sum")))
            self.assert_about(8000 + self.got(self.execute(name, "/bin/sh", "-c", "unset LD_PRELOAD; /app fill:100 sum")))

    def test_the_environment_takes_nothing_off(self):
        for setting in ("CUBFC_DISABLE=1", "CUBFC_GROUP_LIMIT=70GiB", "CUBFC_GROUP=mine", "CUBFC_MEM_LIMIT=70GiB", "CUDA_DEVICE_MEMORY_LIMIT=70g"):
            with self.subTest(setting):
                self.assert_about(self.got(self.run_one("/app", "fill:100", "sum", options=("-e", setting))))
        with self.container("/app", "fill:8000", "hold") as name:
            self.assert_about(8000 + self.got(self.execute(name, "/app", "fill:100", "sum", options=("-e", "CUBFC_DISABLE=1"))))

    def test_the_environment_may_ask_for_less(self):
        self.assert_about(self.got(self.run_one("/app", "fill:100", "sum", options=("-e", "CUBFC_MEM_LIMIT=5GiB"))), 5 * 1024)

    def test_an_images_own_preload_is_kept(self):
        done = self.run_one("/bin/sh", "-c", "echo $LD_PRELOAD; /app fill:100 sum", options=("-e", "LD_PRELOAD=libm.so.6"))
        self.assertEqual(done.stdout.splitlines()[0], "libm.so.6")
        self.assert_about(sum(int(done.stdout.splitlines()[1].split()[index]) for index in (0, 2)))

    def test_what_is_refused_names_the_device(self):
        done = self.run_one("/app", "fill:100", "ask:30000")
        self.assertRegex(done.stdout, r"^100 \d+ 0\n$", f"exit status {done.returncode}: {done.stderr}")
        self.assertIn("cubfc.dev/limit=20g", done.stderr)

    def test_check_proves_it(self):
        done = self.run_one("/opt/cubfc/bin/cubfc", "check", "--enforced")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("cubfc.dev/limit=20g", done.stdout)

    def test_a_process_that_is_killed_leaves_nothing(self):
        with self.container("/app", "fill:1000", "hold") as name:
            script = "/app fill:15000 hold > /tmp/said & while ! [ -s /tmp/said ]; do :; done; kill -9 $!; wait $!; /app fill:100 sum"
            self.assert_about(1000 + self.got(self.execute(name, "/bin/sh", "-c", script)))

    def test_a_container_that_is_killed_leaves_nothing(self):
        with self.container("/app", "fill:15000", "hold") as name:
            must(ENGINE, "kill", name)
            must(ENGINE, "start", name)
            self.wait_for_lines(name, 2)
            self.assert_about(15000 + self.got(self.execute(name, "/app", "fill:100", "sum")))

    def test_two_containers_have_a_budget_each(self):
        with self.container("/app", "fill:15000", "hold"):
            self.assert_about(self.got(self.run_one("/app", "fill:15000", "sum")))

    def test_a_user_of_the_container_is_limited(self):
        self.assert_about(self.got(self.run_one("/app", "fill:100", "sum", options=("--user", "1000:1000"))))

    def test_a_read_only_container(self):
        self.assert_about(self.got(self.run_one("/app", "fill:100", "sum", options=("--read-only",))))


def enter_own_namespace():
    if OWN_NAMESPACE in os.environ:
        return
    words = ["unshare", "--mount", "--propagation", "private"]
    if os.geteuid() != 0 or subprocess.run([*words, "true"], capture_output=True, check=False).returncode != 0:
        print("this is not root, or no mount namespace can be had")
        sys.exit(77)
    os.environ[OWN_NAMESPACE] = "1"
    os.execvp(words[0], [*words, sys.executable, *sys.argv])


if __name__ == "__main__":
    needed = "dockerd" if ENGINE == "docker" else "podman"
    if not shutil.which(needed, path=":".join(str(ROOT / folder) for folder in ("usr/sbin", "usr/bin"))):
        print(f"there is no {needed} in {ROOT}")
        sys.exit(77)
    enter_own_namespace()
    unittest.main(argv=sys.argv[:1], verbosity=2)
