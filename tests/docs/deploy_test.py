#!/usr/bin/env python3
"""docs/deploy: the examples are what their readers accept and do what the pages say, as far as that can be run without
the engine that they are for.

usage: deploy_test.py CUBFC LIBRARY DRIVER_FOLDER PROGRAMS_FOLDER
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

try:
    import yaml
except ImportError:
    print("PyYAML is missing")
    sys.exit(77)

import schemas
from pages import DEPLOY, DEPLOY_PAGES as PAGES, EXAMPLES, ROOT, blocks_of

sys.path.insert(0, str(ROOT / "tests/cli"))
from other_user import without_processes  # noqa: E402

SCRIPTS = sorted(EXAMPLES.glob("*.sh"))
INSTALLED = "/opt/cubfc/lib/libcubfc.so"
PATIENCE = 120  # seconds, for what comes at once where nothing else runs


def faults(value, schema, where="it"):
    """What is wrong with a value by a JSON schema, of which this knows what schemas.py uses."""
    kinds = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int}
    if "enum" in schema and value not in schema["enum"]:
        return [f"{where}: {value!r} is none of {schema['enum']}"]
    if "type" in schema and not isinstance(value, kinds[schema["type"]]):
        return [f"{where}: {value!r} is no {schema['type']}"]
    if "pattern" in schema and not re.fullmatch(schema["pattern"], value):
        return [f"{where}: {value!r} is not of the form {schema['pattern']}"]
    found = []
    if isinstance(value, dict):
        found += [f"{where}: {name} is missing" for name in schema.get("required", ()) if name not in value]
        for name, part in value.items():
            known = schema.get("properties", {}).get(name, schema.get("additionalProperties", {}))
            found += [f"{where}: {name} is unknown"] if known is False else faults(part, known, f"{where}.{name}")
    if isinstance(value, list):
        found += [f"{where} is empty"] if len(value) < schema.get("minItems", 0) else []
        for number, part in enumerate(value):
            found += faults(part, schema.get("items", {}), f"{where}[{number}]")
    return found


def load(name):
    return list(yaml.safe_load_all((EXAMPLES / name).read_text()))


def resources():
    for path in sorted(EXAMPLES.glob("*.yaml")):
        for document in load(path.name):
            if "apiVersion" in document:
                yield path.name, document


def pod_specs():
    for name, document in resources():
        spec = document["spec"]
        if document["kind"] in ("Pod", "DaemonSet"):
            yield name, spec.get("template", {}).get("spec", spec)


class Examples(unittest.TestCase):
    def conforms(self, value, schema):
        self.assertEqual(faults(value, schema), [])

    def test_every_example_is_shown_on_a_page(self):
        text = "".join(page.read_text() for page in PAGES)
        for path in EXAMPLES.iterdir():
            self.assertIn(f"](examples/{path.name})", text)

    def test_the_cdi_file_is_one(self):
        [spec] = load("cubfc-cdi.yaml")
        self.conforms(spec, schemas.CDI)
        names = [device["name"] for device in spec["devices"]]
        self.assertEqual(len(set(names)), len(names))
        for device in spec["devices"]:  # 20g is 20GiB
            [mount] = device["containerEdits"]["mounts"]
            self.assertEqual((mount["hostPath"], mount["containerPath"]), (f"/opt/cubfc/etc/cubfc-{device['name']}.conf", "/etc/cubfc.conf"))
            lines = (EXAMPLES / f"cubfc-{device['name']}.conf").read_text().splitlines()
            self.assertIn(f"enforce CUBFC_GROUP_LIMIT={device['name'].upper()}iB", lines)
            self.assertIn(f"enforce CUBFC_LIMIT_ORIGIN={spec['kind']}={device['name']}", lines)
        for page in PAGES:
            for asked in re.findall("--device " + re.escape(spec["kind"]) + r"=(\w+)", page.read_text()):
                self.assertIn(asked, names)

    def test_containers_mount_volumes_that_there_are(self):
        for name, spec in pod_specs():
            with self.subTest(name):
                volumes = [volume["name"] for volume in spec["volumes"]]
                containers = spec["containers"] + spec.get("initContainers", [])
                self.assertEqual(len(set(volumes)), len(volumes))
                self.assertEqual(len({container["name"] for container in containers}), len(containers))
                mounted = [mount["name"] for container in containers for mount in container.get("volumeMounts", ())]
                self.assertEqual(set(mounted), set(volumes))
                for volume in spec["volumes"]:
                    self.assertEqual(len(volume), 2, "a name and one source")

    def test_a_preload_lies_in_a_mounted_folder(self):
        for name, spec in pod_specs():
            for container in spec["containers"]:
                variables = {one["name"]: one.get("value") for one in container.get("env", ())}
                if "LD_PRELOAD" in variables:
                    with self.subTest(name):
                        self.assertTrue(any(variables["LD_PRELOAD"].startswith(mount["mountPath"] + "/")
                                            for mount in container["volumeMounts"]))

    def test_a_daemon_set_selects_its_own_pods(self):
        [found] = [document for _, document in resources() if document["kind"] == "DaemonSet"]
        self.assertEqual(found["spec"]["selector"]["matchLabels"], found["spec"]["template"]["metadata"]["labels"])

    def test_the_compose_file_is_one(self):
        [compose] = load("compose.yaml")
        self.conforms(compose, schemas.COMPOSE)
        for service in compose["services"].values():
            other = service["ipc"].partition("service:")[2]
            self.assertTrue(not other or compose["services"][other]["ipc"] == "shareable")

    def test_docker_compose_takes_it(self):
        if shutil.which("docker") is None or \
                subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode != 0:
            self.skipTest("no docker compose")
        subprocess.run(["docker", "compose", "-f", EXAMPLES / "compose.yaml", "config", "-q"], check=True, timeout=PATIENCE)

    def test_the_development_container_is_one(self):
        self.conforms(json.loads((EXAMPLES / "devcontainer.json").read_text()), schemas.DEVCONTAINER)

    def test_container_files_have_stages_that_there_are(self):
        stages = set()
        for name in ("Containerfile", "Containerfile.app"):
            lines = [line for line in (EXAMPLES / name).read_text().splitlines() if line and not line.startswith("#")]
            self.assertTrue(lines[0].startswith("FROM "), name)
            for line in lines:
                self.assertRegex(line, r"(FROM \S+( AS \w+)?|COPY (--from=\S+ )?\S+ \S+|ENV \w+=\S+|CMD \[.*\])$")
                stages |= set(re.findall(r"^FROM \S+ AS (\w+)$", line))
                source = re.match(r"COPY --from=(\w+) ", line)
                self.assertTrue(source is None or source[1] in stages, line)
        for path in [*PAGES, EXAMPLES / "Containerfile"]:
            for target in re.findall(r"--target (\w+)", path.read_text()):
                self.assertIn(target, stages)

    def test_blocks_of_yaml_are_lines_of_the_examples(self):
        lines = {line for path in EXAMPLES.glob("*.yaml") for line in path.read_text().splitlines()}
        for page in PAGES:
            for language, text in blocks_of(page):
                if language == "yaml":
                    self.assertEqual([line for line in text.splitlines() if line not in lines], [], page.name)


def settings_of(unit):
    """{name: value} of a unit of systemd's; of a name that stands there more than once, the last."""
    lines = (EXAMPLES / unit).read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if re.match(r"\w+=", line))


class Units(unittest.TestCase):
    def test_systemd_takes_them(self):
        if shutil.which("systemd-analyze") is None:
            self.skipTest("no systemd")
        with tempfile.TemporaryDirectory() as folder:
            for path in EXAMPLES.glob("cubfc-*.[st]*e*"):
                text = path.read_text().replace("/opt/cubfc/bin/cubfc", CUBFC)
                (pathlib.Path(folder) / path.name).write_text(text)
            paths = sorted(pathlib.Path(folder).iterdir())
            self.assertEqual([path.suffix for path in paths], [".service", ".service", ".timer"])
            done = subprocess.run(["systemd-analyze", "verify", "--man=no", *paths], capture_output=True, text=True,
                                  timeout=PATIENCE, check=False)
            self.assertEqual((done.returncode, [line for line in done.stderr.splitlines() if "cubfc" in line]), (0, []))

    def test_they_hide_no_folder_in_which_figures_are(self):
        for unit in ("cubfc-metrics.service", "cubfc-textfile.service"):
            settings = settings_of(unit)
            self.assertEqual((settings["User"], settings["ProtectHome"]), ("root", "read-only"))
            for name in ("DynamicUser", "PrivateTmp", "PrivateUsers", "PrivateMounts", "TemporaryFileSystem", "ProcSubset"):
                self.assertNotIn(name, settings)
        self.assertEqual(settings["ExecStart"].rpartition("/")[0].split()[-1], settings["ReadWritePaths"])

    def test_their_one_right_of_roots_is_what_it_takes_to_see_all_users(self):
        user = without_processes(CUBFC)
        if not user or shutil.which("setpriv") is None:
            self.skipTest("only root can be another user")
        environment = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": DRIVER, "STANDIN_MEMORY": "4GiB"}
        folder = pathlib.Path(f"/dev/shm/cubfc-{user['user']}")  # there is no /run/user/UID
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        with subprocess.Popen([f"{PROGRAMS}/program_free_memory", "fill:100", "wait"], env=environment | {"LD_PRELOAD": LIBRARY},
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **user) as program:
            try:
                program.stdout.readline()
                for unit, rights, seen in (("cubfc-metrics.service", None, True), ("cubfc-textfile.service", None, True),
                                           ("none", "-all", False)):
                    rights = rights or "-all,+" + settings_of(unit)["CapabilityBoundingSet"].lower().removeprefix("cap_")
                    done = subprocess.run(["setpriv", f"--bounding-set={rights}", CUBFC, "metrics"], env=environment,
                                          capture_output=True, text=True, timeout=PATIENCE, check=True)
                    self.assertEqual(f'user="{user["user"]}"' in done.stdout, seen, unit)
            finally:
                program.stdin.close()


class Scripts(unittest.TestCase):
    def test_they_are_sound(self):
        self.assertTrue(SCRIPTS)
        for script in SCRIPTS:
            subprocess.run(["bash", "-n", script], check=True)
            self.assertTrue(os.access(script, os.X_OK), script)
        if shutil.which("shellcheck"):
            subprocess.run(["shellcheck", *SCRIPTS], check=True, timeout=PATIENCE)


class Run(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.app = self.folder / "app"
        shutil.copy(f"{PROGRAMS}/program_free_memory", self.app)
        self.environment = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": DRIVER, "STANDIN_MEMORY": "64GiB",
                            "LC_ALL": "C.UTF-8", "XDG_RUNTIME_DIR": str(self.folder)}

    def run_it(self, *words, **more):
        return subprocess.run(words, env=self.environment | more, capture_output=True, text=True, cwd=self.folder,
                              stdin=subprocess.DEVNULL, timeout=PATIENCE, check=False)

    def is_limited(self, environment):
        """The example's variables, with this library: the program sees a device of that size, and nothing is wrong."""
        values = {name: value.replace(INSTALLED, LIBRARY).replace("$(POD_NAME)", "trainer")
                  for name, value in environment.items()}
        self.assertEqual(values.get("LD_PRELOAD"), LIBRARY)
        [gibibytes] = re.findall(r"^(\d+)GiB$", values["CUBFC_MEM_LIMIT"])
        done = self.run_it(self.app, "fill:100", "ask:1", **values)
        self.assertEqual((done.stdout, done.stderr), (f"100 {int(gibibytes) * 1024 - 100} 1\n", ""))

    def test_the_variables_of_the_examples_limit_a_program(self):
        [compose] = load("compose.yaml")
        for service in compose["services"].values():
            self.is_limited(service["environment"])
        container = json.loads((EXAMPLES / "devcontainer.json").read_text())
        self.is_limited(container["containerEnv"] | container["remoteEnv"])
        self.is_limited(dict(re.findall(r"^ENV (\w+)=(.*)$", (EXAMPLES / "Containerfile.app").read_text(), re.MULTILINE)))
        for name, spec in pod_specs():
            if name.startswith("pod-"):
                self.is_limited({one["name"]: one.get("value", "") for one in spec["containers"][0]["env"]})

    def test_each_launcher_s_line_gives_a_share(self):
        launchers = {"srun": {"SLURM_STEP_TASKS_PER_NODE": "2(x3),4", "SLURM_NODEID": "3", "SLURM_GPUS_ON_NODE": "1"},
                     "torchrun": {"LOCAL_WORLD_SIZE": "4", "CUDA_VISIBLE_DEVICES": "0"},
                     "mpirun": {"OMPI_COMM_WORLD_LOCAL_SIZE": "8", "CUDA_VISIBLE_DEVICES": "0,1"}}
        lines = re.findall(r"^(\w+) .*?/opt/cubfc/bin/cubfc (run --share auto --) .*$", (DEPLOY / "slurm.md").read_text(),
                           re.MULTILINE)
        self.assertEqual([launcher for launcher, _ in lines], list(launchers))
        for launcher, words in lines:
            with self.subTest(launcher):
                done = self.run_it(CUBFC, *words.split(), self.app, "fill:100", "ask:1",
                                   **launchers[launcher], STANDIN_DEVICES="2" if launcher == "mpirun" else "1")
                self.assertEqual((done.returncode, done.stdout), (0, f"100 {64 * 1024 // 4 - 100} 1\n"), done.stderr)

    def test_the_job_script_gives_a_quarter_and_says_so_as_the_page_shows(self):
        srun = self.folder / "srun"
        srun.write_text('#!/bin/sh\n[ "$1" = /opt/cubfc/bin/cubfc ] && shift && exec "$COMMAND" "$@"\n')
        srun.chmod(0o755)
        done = self.run_it("bash", EXAMPLES / "slurm-job.sh", "./app", "fill:200", "ask:1",
                           PATH=f"{self.folder}:/usr/bin:/bin", COMMAND=CUBFC, SLURM_STEP_TASKS_PER_NODE="4", SLURM_GPUS_ON_NODE="1", STANDIN_MEMORY="24GiB")
        self.assertEqual((done.returncode, done.stdout), (0, f"200 {6 * 1024 - 200} 1\n"), done.stderr)
        version = r"\d+\.\d+\.\d+"
        shown = "".join(text for _, text in blocks_of(DEPLOY / "slurm.md") if text.startswith("cubfc: "))
        given = "".join(line + "\n" for line in done.stderr.splitlines()[:2])
        self.assertEqual(re.sub(version, "", given), re.sub(version, "", shown))

    def prolog(self, **variables):
        done = self.run_it("bash", EXAMPLES / "slurm-task-prolog.sh", **variables)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = done.stdout.splitlines()
        for line in lines:
            self.assertRegex(line, r"^export [A-Za-z_][A-Za-z0-9_]*=\S+$")
        return dict(line.removeprefix("export ").split("=", 1) for line in lines)

    def test_the_task_prolog_prints_what_slurm_reads(self):
        task = {"SLURM_GPUS_ON_NODE": "1", "SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "LIBCUBFC": LIBRARY}
        shards = task | {"SLURM_SHARDS_ON_NODE": "2", "SHARDS_PER_GPU": "8"}
        labels = {"CUBFC_LABELS": "slurm_job=7,slurm_task=0"}
        quarter = {"LD_PRELOAD": LIBRARY, "CUBFC_GROUP": "slurm-7", "CUBFC_GROUP_LIMIT": "25.00%", "SHARDS_PER_GPU": "8", "CUBFC_LIMIT_ORIGIN": "shard:2"}
        self.assertEqual(self.prolog(**task), {"LD_PRELOAD": LIBRARY} | labels)
        self.assertEqual(self.prolog(**shards), quarter | labels)
        self.assertEqual(self.prolog(**shards | {"SLURM_SHARDS_ON_NODE": "8"}), {"LD_PRELOAD": LIBRARY} | labels)
        [shown] = [text for _, text in blocks_of(DEPLOY / "slurm.md") if "slurm-task-prolog.sh\nexport" in text]
        self.assertEqual(dict(line.removeprefix("export ").split("=", 1) for line in shown.splitlines()[1:]),
                         quarter | labels | {"LD_PRELOAD": INSTALLED})
        # What is there already, and where there is nothing to do.
        self.assertEqual(self.prolog(**task, LD_PRELOAD=LIBRARY), labels)
        for own in ("CUBFC_MEM_LIMIT", "CUBFC_GROUP_LIMIT"):
            self.assertEqual(self.prolog(**shards | {own: "1GiB"}), {"LD_PRELOAD": LIBRARY} | labels)
        self.assertEqual(self.prolog(**task | {"SLURM_GPUS_ON_NODE": ""}), {})
        self.assertEqual(self.prolog(**task | {"LIBCUBFC": "/nowhere/libcubfc.so"}), {})
        done = self.run_it(self.app, "fill:100", "ask:1", **self.prolog(**shards))
        self.assertEqual((done.stdout, done.stderr), (f"100 {16 * 1024 - 100} 1\n", ""))

    def in_namespaces(self, *options):
        if shutil.which("unshare") is None or \
                subprocess.run(["unshare", *options, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("no namespaces for this user here")
        return ["unshare", *options]

    def test_ld_so_preload_serves_a_program_without_a_variable(self):
        chroot = shutil.which("chroot", path=os.environ["PATH"] + ":/usr/sbin:/sbin")
        if chroot is None:
            self.skipTest("no chroot")
        unshare = self.in_namespaces("-r")
        behaviour = ROOT / "tests/gpu/behaviour/documented.json"
        root = self.folder / "root"
        inside = {"/app": self.app, "/driver/libcuda.so.1": f"{DRIVER}/libcuda.so.1", INSTALLED: LIBRARY,
                  "/driver/behaviour.json": behaviour, "/etc/ld.so.preload": EXAMPLES / "ld.so.preload"}
        for binary in (self.app, f"{DRIVER}/libcuda.so.1"):
            for path in re.findall(r"/\S+", self.run_it("ldd", binary).stdout):
                if not path.startswith((DRIVER, str(self.folder))) and os.path.isfile(path):
                    inside[path] = path
        for path, source in inside.items():
            (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, root / path[1:])
        program = [*unshare, chroot, str(root), "/app", "fill:100", "ask:1"]
        environment = {"LD_LIBRARY_PATH": "/driver", "STANDIN_BEHAVIOUR": "/driver/behaviour.json",
                       "CUBFC_MEM_LIMIT": "20GiB"}
        done = self.run_it(*program, **environment)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, f"100 {20 * 1024 - 100} 1\n", ""))
        (root / "etc/ld.so.preload").unlink()
        self.assertEqual(self.run_it(*program, **environment).stdout, f"100 {64 * 1024 - 100} 1\n")

    def test_containers_with_one_runtime_folder_give_each_other_memory(self):
        unshare = self.in_namespaces("-rmpf", "--kill-child", "--mount-proc")
        script = textwrap.dedent("""\
            mount -t tmpfs none /run && mount -t tmpfs none /dev/shm && mkdir -p /run/user/0 &&
            mount --bind "$1" /run/user/0 && shift && exec "$@"
            """)
        del self.environment["XDG_RUNTIME_DIR"]
        for folder, given in (("one", "200 2896 2500\n"), ("other", r"200 \d{1,3} 0\n")):
            with self.subTest(folder):
                # Of processes that have ended, the software GPU keeps what they had where their number is another's, too.
                environment = self.environment | {
                    "STANDIN_MEMORY": "4GiB", "STANDIN_SHARED": str(self.folder / f"devices-{folder}"),
                    "LD_PRELOAD": LIBRARY, "CUBFC_LOG_LEVEL": "off"}

                def container(folder, *words):
                    (self.folder / folder).mkdir(mode=0o700, exist_ok=True)
                    return [*unshare, "bash", "-c", script, "container", str(self.folder / folder), self.app, *words]

                with subprocess.Popen(container("one", "fill:1000", "wait"), env=environment, text=True,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first:
                    try:
                        self.assertEqual(first.stdout.readline(), "1000 3096\n")
                        second = self.run_it(*container(folder, "fill:200", "ask:2500"), **environment)
                    finally:
                        first.stdin.close()
                self.assertRegex(second.stdout, f"^{given}$", second.stderr)


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    CUBFC, LIBRARY, DRIVER, PROGRAMS = map(os.path.abspath, sys.argv[1:5])
    unittest.main(argv=sys.argv[:1] + sys.argv[5:])
