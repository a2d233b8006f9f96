#!/usr/bin/env python3
"""The examples for Kubernetes, by its own schemas and its expressions' language; what the policy adds limits programs, on the software driver.

usage: kubernetes_test.py CUBFC DRIVER_FOLDER LIBRARY PROGRAM EXAMPLES_FOLDER

Takes what the API server does from PyPI: kubernetes-validate has the schemas, cel-python evaluates expressions. What the server adds to
that, how lists are merged, is done here by what the schemas say of each list.
"""
import copy
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import celpy
import kubernetes_validate
import yaml

CUBFC, DRIVER, LIBRARY, PROGRAM, EXAMPLES = (pathlib.Path(path).resolve() for path in sys.argv[1:6])
# The first that has what each example uses: image volumes on by default, and the policy under its final name.
FIRST, LAST = "1.36.0", kubernetes_validate.latest_version()
SCHEMAS = pathlib.Path(kubernetes_validate.__file__).parent / f"kubernetes-json-schema/v{LAST}-local/_definitions.json"
DEFINITIONS = json.loads(SCHEMAS.read_text())["$defs"]
POD = "io.k8s.api.core.v1.Pod"
INSTALLED = "/opt/cubfc/lib/libcubfc.so"
UID = "0b9a3d5e-8f0c-4a5e-9c1d-2f6b7a8c9d10"
SECONDS = 120
GIB = 1024  # MiB


def load(name):
    return list(yaml.safe_load_all((EXAMPLES / name).read_text()))


POLICY, BINDING = load("admission-policy.yaml")


def definition(schema):
    """What a part of a schema refers to."""
    return DEFINITIONS[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


def merged(live, applied, schema):
    """As the API server applies a configuration: objects by field, lists by their keys, all else is replaced."""
    schema = definition(schema)
    if isinstance(applied, dict) and isinstance(live, dict):
        parts = schema.get("properties", {})
        return live | {name: merged(live.get(name), value, parts.get(name, {})) for name, value in applied.items()}
    if isinstance(applied, list) and isinstance(live, list) and schema.get("x-kubernetes-list-type") == "map":
        keys = schema["x-kubernetes-list-map-keys"]
        result = copy.deepcopy(live)
        for item in applied:
            found = [index for index, other in enumerate(result) if all(other.get(key) == item.get(key) for key in keys)]
            if found:
                result[found[0]] = merged(result[found[0]], item, schema["items"])
            else:
                result.append(item)
        return result
    return applied


def evaluated(expression, pod):
    """Of a CEL expression. What it makes are objects of types that follow the resource's fields: here, mappings."""
    untyped = re.sub(r"\bObject(\.\w+)*\{", "{", expression)
    untyped = re.sub(r"(?<=[{,])(\s*)([A-Za-z]\w*):", r'\1"\2":', untyped)
    environment = celpy.Environment()
    result = environment.program(environment.compile(untyped)).evaluate({"object": celpy.json_to_cel(pod)})
    return json.loads(json.dumps(result, cls=celpy.adapter.CELJSONEncoder))


def admitted(pod):
    """The pod that the API server makes of it."""
    for condition in POLICY["spec"]["matchConditions"]:
        if not evaluated(condition["expression"], pod):
            return pod
    [mutation] = POLICY["spec"]["mutations"]
    return merged(pod, evaluated(mutation["applyConfiguration"]["expression"], pod), DEFINITIONS[POD])


def pod_with(labels=None, **container):
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "trainer"},
           "spec": {"containers": [{"name": "trainer", "image": "registry.example.com/app:1.0"} | container]}}
    if labels is not None:
        pod["metadata"]["labels"] = labels
    return pod


def settings_of(container):
    """The variables that its processes get."""
    settings = {}
    for one in container.get("env", ()):
        assert not ("value" in one and "valueFrom" in one), f"{one['name']} has a value and a source of one, which the API server refuses"
        settings[one["name"]] = one["value"] if "value" in one else {"metadata.uid": UID, "metadata.name": "trainer"}[one["valueFrom"]["fieldRef"]["fieldPath"]]
    return settings


class Schemas(unittest.TestCase):
    def test_each_example_is_what_kubernetes_takes(self):
        found = 0
        for path in sorted(EXAMPLES.glob("*.yaml")):
            for document in load(path.name):
                for version in (FIRST, LAST) if "apiVersion" in document else ():
                    with self.subTest(path.name, version=version):
                        kubernetes_validate.validate(document, version, strict=True)
                        found += 1
        self.assertGreaterEqual(found, 10)

    def test_the_policy_is_bound(self):
        self.assertEqual(BINDING["spec"]["policyName"], POLICY["metadata"]["name"])

    def test_what_the_expression_makes_are_types_and_fields_of_a_pod(self):
        [mutation] = POLICY["spec"]["mutations"]
        tree = celpy.Environment().compile(mutation["applyConfiguration"]["expression"])
        made = 0
        for node in tree.iter_subtrees():
            if node.data != "member_object":
                continue
            words = [str(token) for token in node.children[0].scan_values(lambda _: True)]
            schema = DEFINITIONS[POD]
            self.assertEqual(words[0], "Object")
            for word in words[1:]:
                schema = definition(schema["properties"][word])
                schema = definition(schema.get("items", schema))
            for field in node.children[1].children[::2]:
                self.assertIn(str(field), schema["properties"], ".".join(words))
            made += 1
        self.assertGreater(made, 10)


class Admission(unittest.TestCase):
    def environment_of(self, pod):
        result = admitted(copy.deepcopy(pod))
        kubernetes_validate.validate(result, LAST, strict=True)
        mounts = {mount["mountPath"]: mount["name"] for mount in result["spec"]["containers"][0]["volumeMounts"]}
        self.assertIn("/opt/cubfc", mounts)
        self.assertIn(mounts["/opt/cubfc"], [volume["name"] for volume in result["spec"]["volumes"]])
        return settings_of(result["spec"]["containers"][0])

    def test_a_label_is_a_limit(self):
        self.assertEqual(self.environment_of(pod_with({"cubfc.dev/limit": "20GiB"})), {
            "LD_PRELOAD": INSTALLED, "CUBFC_GROUP": UID, "CUBFC_GROUP_LIMIT": "20GiB", "CUBFC_LIMIT_ORIGIN": "cubfc.dev/limit=20GiB"})

    def test_a_label_is_a_request(self):
        self.assertEqual(self.environment_of(pod_with({"cubfc.dev/request": "8Gi"})), {"LD_PRELOAD": INSTALLED, "CUBFC_MEM_REQUEST": "8Gi"})

    def test_both(self):
        settings = self.environment_of(pod_with({"cubfc.dev/limit": "20GiB", "cubfc.dev/request": "8GiB"}))
        self.assertEqual((settings["CUBFC_GROUP_LIMIT"], settings["CUBFC_MEM_REQUEST"]), ("20GiB", "8GiB"))

    def test_the_schedulers_limit(self):
        self.assertEqual(self.environment_of(pod_with({"cubfc.dev/limit": "scheduler"})), {
            "LD_PRELOAD": INSTALLED, "CUBFC_GROUP": UID, "CUDA_DISABLE_CONTROL": "true"})

    def test_a_pod_without_either_is_left_alone(self):
        for pod in (pod_with(), pod_with({}), pod_with({"app": "trainer"})):
            self.assertEqual(admitted(copy.deepcopy(pod)), pod)

    def test_what_a_pod_has_stays_but_for_what_is_set(self):
        env = [{"name": "A", "value": "1"}, {"name": "LD_PRELOAD", "value": "mine.so"}, {"name": "CUBFC_GROUP_LIMIT", "value": "70GiB"}]
        pod = pod_with({"cubfc.dev/limit": "20GiB"}, env=env, volumeMounts=[{"name": "data", "mountPath": "/data"}])
        pod["spec"]["volumes"] = [{"name": "data", "emptyDir": {}}]
        pod["spec"]["containers"].append({"name": "second", "image": "i:1"})
        pod["spec"]["initContainers"] = [{"name": "first", "image": "i:1"}]
        result = admitted(pod)
        kubernetes_validate.validate(result, LAST, strict=True)
        settings = settings_of(result["spec"]["containers"][0])
        self.assertEqual((settings["A"], settings["LD_PRELOAD"], settings["CUBFC_GROUP_LIMIT"]), ("1", INSTALLED, "20GiB"))
        self.assertEqual([mount["mountPath"] for mount in result["spec"]["containers"][0]["volumeMounts"]], ["/data", "/opt/cubfc"])
        self.assertEqual([volume["name"] for volume in result["spec"]["volumes"]], ["data", "cubfc"])
        self.assertEqual(settings_of(result["spec"]["containers"][1])["CUBFC_GROUP_LIMIT"], "20GiB")
        self.assertEqual(result["spec"]["initContainers"], [{"name": "first", "image": "i:1"}])

    def test_a_second_application_changes_nothing(self):
        for labels in ({"cubfc.dev/limit": "20GiB", "cubfc.dev/request": "8GiB"}, {"cubfc.dev/limit": "scheduler"}):
            once = admitted(pod_with(labels))
            self.assertEqual(admitted(copy.deepcopy(once)), once)


class Limits(unittest.TestCase):
    """What the settings do, in processes of one container."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="cubfc-kubernetes-test-")
        self.addCleanup(folder.cleanup)
        self.container = {"PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": str(DRIVER), "STANDIN_MEMORY": "80GiB", "XDG_RUNTIME_DIR": folder.name,
                          "STANDIN_SHARED": f"{folder.name}/gpu"}

    def settings(self, labels, **given):
        settings = settings_of(admitted(pod_with(labels))["spec"]["containers"][0])
        return self.container | settings | {"LD_PRELOAD": str(LIBRARY)} | given

    def taken_by_two(self, environment):
        """MiB that two processes have in sum, and what the second says of what it is refused."""
        with subprocess.Popen([PROGRAM, "fill:2000", "hold"], env=environment, stdout=subprocess.PIPE, text=True) as first:
            try:
                self.assertRegex(first.stdout.readline(), "^2000 ")
                done = subprocess.run([PROGRAM, "fill:100", "sum"], env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)
            finally:
                first.kill()
        live, _, more = map(int, done.stdout.split())
        return 2000 + live + more, done.stderr

    def assert_about(self, taken, wanted):
        self.assertGreaterEqual(taken, 0.98 * wanted)
        self.assertLessEqual(taken, wanted)

    def test_all_processes_have_the_labels_limit_and_what_is_refused_names_it(self):
        taken, told = self.taken_by_two(self.settings({"cubfc.dev/limit": "20Gi"}))
        self.assert_about(taken, 20 * GIB)
        self.assertIn("cubfc.dev/limit=20Gi", told)

    def test_a_label_that_is_no_size_gives_no_memory(self):
        for value in ("20Gx", "", "schedular"):
            done = subprocess.run([PROGRAM, "fill:100", "ask:1"], env=self.settings({"cubfc.dev/limit": value}), capture_output=True,
                                  text=True, timeout=SECONDS, check=False)
            self.assertRegex(done.stdout, r"^0 \d+ 0\n$", done.stderr)
            self.assertIn("CUBFC_GROUP", done.stderr)

    def test_a_request_is_kept_from_others(self):
        environment = self.settings({"cubfc.dev/request": "60GiB"}) | {"CUBFC_PREALLOCATE": "soft"}
        with subprocess.Popen([PROGRAM, "freed:60000", "hold"], env=environment, stdout=subprocess.PIPE, text=True) as first:
            try:
                first.stdout.readline()
                other = subprocess.run([PROGRAM, "fill:100", "sum"], env=self.container | {"LD_PRELOAD": str(LIBRARY)}, capture_output=True,
                                       text=True, timeout=SECONDS, check=False)
            finally:
                first.kill()
        live, _, more = map(int, other.stdout.split())
        self.assert_about(live + more, 20 * GIB)

    def test_what_hami_has_given_is_the_containers(self):
        """Its device plugin's variables, in version 2.9."""
        given = {"CUDA_DEVICE_MEMORY_LIMIT_0": "30000m", "CUDA_DEVICE_SM_LIMIT": "50",
                 "CUDA_DEVICE_MEMORY_SHARED_CACHE": "/usr/local/vgpu/cache"}
        taken, told = self.taken_by_two(self.settings({"cubfc.dev/limit": "scheduler"}, **given))
        self.assert_about(taken, 30000)
        self.assertIn("CUDA_DEVICE_MEMORY_LIMIT_0", told)

    def test_what_kai_has_given_is_the_containers(self):
        """Its hamicore plugin's variable."""
        taken, told = self.taken_by_two(self.settings({"cubfc.dev/limit": "scheduler"}, CUDA_DEVICE_MEMORY_LIMIT="20480m"))
        self.assert_about(taken, 20480)
        self.assertIn("CUDA_DEVICE_MEMORY_LIMIT", told)

    def test_a_scheduler_that_has_given_nothing_gives_no_memory(self):
        done = subprocess.run([PROGRAM, "fill:100", "ask:1"], env=self.settings({"cubfc.dev/limit": "scheduler"}), capture_output=True, text=True,
                              timeout=SECONDS, check=False)
        self.assertRegex(done.stdout, r"^0 \d+ 0\n$", done.stderr)
        self.assertIn("needs CUBFC_GROUP_LIMIT", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
