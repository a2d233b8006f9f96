#!/usr/bin/env python3
"""The dashboard for Grafana asks for what `cubfc metrics` has; and, where Prometheus is installed, each of its panels
gets an answer from it, and sums count nothing twice.

usage: dashboard_test.py CUBFC LIBRARY DRIVER_FOLDER PROGRAMS_FOLDER
"""
import contextlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import unittest
import urllib.error
import urllib.parse
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from listening import Listening
from under_cubfc import PATIENCE, read_metrics, run_tests, wait_until

MIB = 1 << 20
EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "docs/deploy/examples"
DASHBOARD = json.loads((EXAMPLES / "grafana-dashboard.json").read_text())
# What Prometheus adds to whatever it scrapes.
OF_TARGETS = {"instance", "job"}


def asked_on_the_page():
    """The queries in the table of docs/deploy/monitoring.md."""
    text = (EXAMPLES.parent / "monitoring.md").read_text()
    return re.findall(r"^\| [^|]+ \| `([^`]*)`", text, re.MULTILINE)


def targets():
    """(title, expression, legend) of each query of the dashboard."""
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"], target["legendFormat"]


def names_in(list_of_names):
    return {name.strip() for name in list_of_names.split(",") if name.strip()}


def faults(expression, legend, labels):
    """What in a query is not on the page, whose metrics have these {name: labels}."""
    found = []
    metrics = re.findall(r"\b(cubfc_\w+)\s*(?:\{([^}]*)\})?", expression)
    if not metrics:
        found.append("no metric")
    grouped = set().union(*(names_in(group) for group in re.findall(r"\bby\s*\(([^)]*)\)", expression)))
    for name, matchers in metrics:
        if name not in labels:
            found.append(f"there is no {name}")
            continue
        asked = set(re.findall(r'(\w+)\s*(?:=~|!~|!=|=)\s*"', matchers)) | grouped
        found += [f"{name} has no label {label}" for label in sorted(asked - labels[name] - OF_TARGETS)]
    found += [f"{label} of the legend is not in the result"
              for label in re.findall(r"\{\{\s*(\w+)\s*\}\}", legend) if label not in grouped]
    return found


class Dashboard(Listening):
    def setUp(self):
        super().setUp()
        self.environment |= {"STANDIN_DEVICES": "2", "CUBFC_PREALLOCATE": "false"}
        group = {"CUBFC_GROUP": "team", "CUBFC_GROUP_LIMIT": "1GiB"}
        self.start("fill:500", "wait", CUBFC_MEM_LIMIT="2GiB", CUBFC_LABELS="job=7,slurm_job=7")
        self.start("fill:300", "wait", **group)
        self.start("holes:200", "wait", **group)

    def test_it_asks_for_what_there_is(self):
        labels = {name: set().union(*(labels for labels, _ in samples))
                  for name, samples in read_metrics(self.output_of("metrics")).items()}
        self.assertGreaterEqual(len(list(targets())), 16)
        for title, expression, legend in targets():
            self.assertEqual(faults(expression, legend, labels), [], title)
        self.assertGreaterEqual(len(asked_on_the_page()), 7)
        for expression in asked_on_the_page():
            self.assertEqual(faults(expression, "", labels), [])
        for variable in DASHBOARD["templating"]["list"]:
            if variable["type"] == "query":
                self.assertRegex(variable["definition"], r"^label_values\((\w+), instance\)$")
                self.assertIn(re.findall(r"cubfc_\w+", variable["definition"])[0], labels)
        # And it would be seen.
        for wrong in ("sum(cubfc_nothing)", "sum by (nothing) (cubfc_in_use_bytes)", "up",
                      'sum(cubfc_in_use_bytes{nothing="x"})', "sum by (pid) (cubfc_device_bytes)",
                      "sum by (gpu) (cubfc_in_use_bytes) / sum by (gpu) (cubfc_devices_bytes)"):
            self.assertNotEqual(faults(wrong, "", labels), [], wrong)
        self.assertNotEqual(faults("sum by (user) (cubfc_in_use_bytes)", "{{program}}", labels), [])

    def test_its_panels_are_where_they_can_be(self):
        places = set()
        for panel in DASHBOARD["panels"]:
            at = panel["gridPos"]
            self.assertLessEqual(at["x"] + at["w"], 24, panel["title"])
            for x in range(at["x"], at["x"] + at["w"]):
                for y in range(at["y"], at["y"] + at["h"]):
                    self.assertNotIn((x, y), places, panel["title"])
                    places.add((x, y))
            self.assertEqual(panel["datasource"]["uid"], "${datasource}")
            self.assertTrue(panel["description"])
        numbers = [panel["id"] for panel in DASHBOARD["panels"]]
        self.assertEqual(len(set(numbers)), len(numbers))
        self.assertEqual([variable["name"] for variable in DASHBOARD["templating"]["list"]], ["datasource", "instance"])

    def test_what_is_there_once_is_counted_once(self):
        metrics = read_metrics(self.output_of("metrics"))

        def total(name, **labels):
            return sum(value for found, value in metrics[name] if labels.items() <= found.items())

        self.assertEqual(total("cubfc_device_bytes", gpu="0"), 4096 * MIB)
        self.assertEqual(total("cubfc_group_limit_bytes", group="team"), 1024 * MIB)
        self.assertEqual(total("cubfc_limit_bytes"), 2048 * MIB)
        self.assertEqual(total("cubfc_in_use_bytes", program="program_free_memory"), (500 + 300 + 100) * MIB)
        self.assertEqual(total("cubfc_memory_in_use_bytes"), (500 + 300 + 100) * MIB)

    @unittest.skipUnless(shutil.which("promtool"), "no promtool")
    def test_promtool_finds_nothing_to_say(self):
        done = subprocess.run(["promtool", "check", "metrics"], input=self.output_of("metrics"), capture_output=True,
                              text=True, timeout=PATIENCE, check=False)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    def start_prometheus(self, server):
        """The example's configuration, with another port. Where Prometheus listens."""
        (self.folder / "prometheus").mkdir()
        configuration = self.folder / "prometheus.yaml"
        configuration.write_text("global: {scrape_interval: 1s, scrape_timeout: 1s}\n" + (
            EXAMPLES / "prometheus.yaml").read_text().replace(":9834", f":{server.port}"))
        return self.start_server("prometheus", f"--config.file={configuration}", f"--storage.tsdb.path={self.folder}/prometheus",
                                 "--web.listen-address=127.0.0.1:0")

    def start_server(self, *words):
        """A server that finds itself a port. Its address."""
        log = (self.folder / f"{words[0]}.log").open("w")
        self.addCleanup(log.close)
        server = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)

        def port():
            self.assertIsNone(server.poll(), pathlib.Path(log.name).read_text())
            sockets = set()
            for link in pathlib.Path(f"/proc/{server.pid}/fd").iterdir():
                with contextlib.suppress(FileNotFoundError):  # it has just been closed
                    sockets.add(str(link.readlink()))
            lines = [line for name in ("tcp", "tcp6") for line in pathlib.Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
            for line in lines:
                words = line.split()
                if words[3] == "0A" and f"socket:[{words[9]}]" in sockets:
                    return int(words[1].split(":")[1], 16)
            return None

        return f"http://127.0.0.1:{wait_until(port, lambda: 'its port')}"

    def query(self, prometheus, expression):
        address = f"{prometheus}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
        try:
            with urllib.request.urlopen(address, timeout=PATIENCE) as answer:
                return json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as error:
            if error.code == 503:  # it begins
                return []
            raise AssertionError(f"{expression}: {error.read().decode()}") from error

    @unittest.skipUnless(shutil.which("prometheus"), "no Prometheus")
    def test_prometheus_answers_every_panel(self):
        prometheus = self.start_prometheus(self.listen())
        for title, expression, legend in targets():
            asked = expression.replace("$__rate_interval", "5m").replace("$__range", "5m").replace("$instance", ".*")
            self.assertNotIn("$", asked)
            result = wait_until(lambda: self.query(prometheus, asked), lambda: f"{title}: {asked}")
            for label in re.findall(r"\{\{\s*(\w+)\s*\}\}", legend):
                for series in result:
                    self.assertTrue(series["metric"].get(label), f"{title}: {label} in {series}")

        for expression in asked_on_the_page():
            result = self.query(prometheus, expression)  # or it would be an error
            self.assertTrue(result or ">" in expression, expression)

        def values(expression):
            return {tuple(sorted(series["metric"].items())): float(series["value"][1])
                    for series in self.query(prometheus, expression)}

        in_use = (500 + 300 + 100) * MIB
        self.assertEqual(values("sum by (program) (cubfc_in_use_bytes)"), {(("program", "program_free_memory"),): in_use})
        self.assertEqual(values("sum by (gpu) (cubfc_device_bytes)"), {(("gpu", "0"),): 4096 * MIB})
        self.assertEqual(values("sum by (group) (cubfc_group_limit_bytes)"), {(("group", "team"),): 1024 * MIB})
        # No label was renamed.
        [series] = self.query(prometheus, 'cubfc_in_use_bytes{exported_job="7",slurm_job="7"}')
        self.assertEqual(series["metric"]["job"], "cubfc")
        self.assertEqual(self.query(prometheus, '{exported_instance=~".+"}'), [])

    @unittest.skipUnless(shutil.which("prometheus-node-exporter"), "no node_exporter")
    def test_node_exporter_passes_on_what_the_file_has(self):
        folder = self.folder / "textfile"
        folder.mkdir()
        folder.chmod(0o777)  # the command may run as another user
        self.output_of("metrics", "-o", str(folder / "cubfc.prom"))
        exporter = self.start_server("prometheus-node-exporter", "--web.listen-address=127.0.0.1:0", "--collector.disable-defaults",
                                     "--collector.textfile", f"--collector.textfile.directory={folder}")

        def passed_on():
            with contextlib.suppress(urllib.error.URLError):
                with urllib.request.urlopen(f"{exporter}/metrics", timeout=PATIENCE) as answer:
                    return samples_of(answer.read().decode())
            return None

        def samples_of(text):
            """In any order. The exporter gives each sample of a name the same labels, empty ones where there is none."""
            samples = re.findall(r"^(cubfc_\w+)\{(.*)\} (\S+)$", text, re.MULTILINE)
            return sorted((name, sorted(re.findall(r'(\w+)="([^"]+)"', labels)), float(value)) for name, labels, value in samples)

        written = samples_of((folder / "cubfc.prom").read_text())
        self.assertGreater(len(written), 30)
        self.assertEqual(wait_until(passed_on, lambda: "its answer"), written)


if __name__ == "__main__":
    run_tests(__doc__)
