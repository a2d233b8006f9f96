#!/usr/bin/env python3
"""cubfc.ray on a real cluster of Ray's: two nodes on this machine, each with one GPU of the software driver.

usage: ray_test.py CUBFC DRIVER_FOLDER MODULE_FOLDER    (CUBFC: the command; in an environment that has ray)
"""
import json
import os
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
CUBFC, DRIVER, MODULE = map(os.path.abspath, sys.argv[1:4])
HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = tempfile.TemporaryDirectory(prefix="cubfc-ray-test-")
GIB = 1 << 30
GPU = 24 * GIB
sys.path.insert(0, MODULE)
os.environ.update(
    PATH=f"{os.path.dirname(CUBFC)}:{os.environ['PATH']}", PYTHONPATH=f"{MODULE}:{HERE}", LD_LIBRARY_PATH=DRIVER, STANDIN_MEMORY="24GiB",
    XDG_RUNTIME_DIR=FOLDER.name, PYTHONDONTWRITEBYTECODE="1", RAY_USAGE_STATS_ENABLED="0", RAY_ENABLE_UV_RUN_RUNTIME_ENV="0",
    RAY_RUNTIME_ENV_PLUGINS='[{"class": "cubfc.ray.Plugin"}]', RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0")

import ray  # noqa: E402
from ray.cluster_utils import Cluster  # noqa: E402
from ray.util.placement_group import placement_group, remove_placement_group  # noqa: E402
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy  # noqa: E402

import cubfc.ray  # noqa: E402
from taking import take  # noqa: E402

SECONDS = 120
CLUSTER = None


def setUpModule():
    global CLUSTER
    node = {"num_cpus": 8, "num_gpus": 1, "object_store_memory": 100 << 20}
    CLUSTER = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    CLUSTER.add_node(**node)
    CLUSTER.wait_for_nodes()
    ray.init(address=CLUSTER.address, log_to_driver=False)


def tearDownModule():
    ray.shutdown()
    CLUSTER.shutdown()
    FOLDER.cleanup()


def get(reference):
    return ray.get(reference, timeout=SECONDS)


def told():
    """In a worker: what its library says of it, and who it is."""
    return {"pid": os.getpid(), "limit": os.environ.get("CUBFC_MEM_LIMIT"), "active": cubfc.is_active(),
            "node": ray.get_runtime_context().get_node_id()}


class Taker:
    """As an actor."""

    def take(self, most=1 << 50):
        return take(most)

    def told(self):
        return told()

    def end(self):
        os._exit(1)


class Shares(unittest.TestCase):
    def assert_about(self, taken, wanted):
        self.assertGreaterEqual(taken, 0.98 * wanted)
        self.assertLessEqual(taken, wanted)

    def test_a_task_gets_its_share_and_no_more(self):
        for share in (0.25, 0.5, 0.1):
            task = ray.remote(**cubfc.ray.options(num_gpus=share))(take)
            self.assert_about(get(task.remote()), share * GPU)

    def test_what_is_refused_is_told_in_rays_word(self):
        report = os.path.join(FOLDER.name, "oom.jsonl")
        task = ray.remote(**cubfc.ray.options(num_gpus=0.25, oom_report=report))(take)
        get(task.remote())
        with open(report, encoding="utf-8") as lines:
            failed = json.loads(lines.readline())
        self.assertEqual(failed["cause"], "over_limit")
        self.assertIn("num_gpus=0.25", failed["advice"])

    def actors(self, actor, options):
        """One for each of these options; they end with the test."""
        made = [actor.options(**each).remote() for each in options]
        self.addCleanup(lambda: [ray.kill(one) for one in made])
        return made

    def test_as_many_as_fit_on_the_gpus_get_all_of_them_together(self):
        actors = self.actors(ray.remote(**cubfc.ray.options(num_gpus=0.25))(Taker), [{}] * 8)
        taken = [get(one.take.remote()) for one in actors]
        by_node = {}
        for one, bytes_taken in zip(actors, taken):
            node = get(one.told.remote())["node"]
            by_node[node] = by_node.get(node, 0) + bytes_taken
        self.assertEqual(len(by_node), 2)
        for bytes_taken in by_node.values():
            self.assert_about(bytes_taken, GPU)

    def test_another_share_is_another_worker(self):
        quarter, half = (ray.remote(**cubfc.ray.options(num_gpus=share))(told) for share in (0.25, 0.5))
        first, second = get(quarter.remote()), get(half.remote())
        self.assertEqual((first["limit"], second["limit"]), ("25%", "50%"))
        self.assertNotEqual(first["pid"], second["pid"])
        without = get(ray.remote(num_gpus=0.25)(told).remote())
        self.assertEqual((without["limit"], without["active"]), (None, False))

    def test_a_worker_that_is_used_again_keeps_its_limit(self):
        task = ray.remote(**cubfc.ray.options(num_gpus=0.25), max_calls=0)(told)
        seen = [get(task.remote()) for _ in range(6)]
        self.assertLess(len({one["pid"] for one in seen}), 6)
        self.assertEqual({(one["limit"], one["active"]) for one in seen}, {("25%", True)})

    def test_an_actor_that_is_started_again_has_its_limit_again(self):
        actor, = self.actors(ray.remote(**cubfc.ray.options(num_gpus=0.25), max_restarts=1, max_task_retries=1)(Taker), [{}])
        first = get(actor.told.remote())
        self.assert_about(get(actor.take.remote()), GPU / 4)
        actor.end.options(max_task_retries=0).remote()
        deadline = time.monotonic() + SECONDS
        second = first
        while second["pid"] == first["pid"] and time.monotonic() < deadline:
            second = get(actor.told.remote())
        self.assertNotEqual(second["pid"], first["pid"])
        self.assert_about(get(actor.take.remote()), GPU / 4)

    def test_in_a_placement_group(self):
        group = placement_group([{"GPU": 0.5, "CPU": 1}, {"GPU": 0.5, "CPU": 1}], strategy="STRICT_SPREAD")
        self.addCleanup(remove_placement_group, group)
        get(group.ready())
        actors = self.actors(ray.remote(**cubfc.ray.options(num_gpus=0.5))(Taker),
                             [{"scheduling_strategy": PlacementGroupSchedulingStrategy(group, bundle)} for bundle in (0, 1)])
        self.assertEqual(len({get(one.told.remote())["node"] for one in actors}), 2)
        for one in actors:
            self.assert_about(get(one.take.remote()), GPU / 2)

    def test_actors_of_a_group_share_what_all_of_them_ask_for(self):
        group = placement_group([{"GPU": 0.5, "CPU": 2}])
        self.addCleanup(remove_placement_group, group)
        get(group.ready())
        one_gpu = {"env_vars": {"STANDIN_SHARED": os.path.join(FOLDER.name, "shared")}}  # else each process has a GPU of its own
        first, second = self.actors(
            ray.remote(**cubfc.ray.options(num_gpus=0.25, group="ray-servers", actors=2, runtime_env=one_gpu))(Taker),
            [{"scheduling_strategy": PlacementGroupSchedulingStrategy(group, 0)}] * 2)
        self.assert_about(get(first.take.remote(9 * GIB)), 9 * GIB)
        self.assert_about(get(second.take.remote()), 3 * GIB)
        ray.kill(first)  # what it had is the other's
        deadline = time.monotonic() + SECONDS
        more = 0
        while more < 8 * GIB and time.monotonic() < deadline:
            more += get(second.take.remote())
        self.assert_about(more, 9 * GIB)

    def test_a_smaller_share_than_the_limit_is_said_at_the_tasks_start(self):
        @cubfc.ray.remote(num_gpus=0.25)
        def task(number):
            return number + 1

        @cubfc.ray.remote(num_gpus=0.25)
        def numbers(count):
            for number in range(count):  # Ray sends values, which a range does not take
                yield number

        @cubfc.ray.remote(num_gpus=0.25)
        class Counter:
            def __init__(self, start):
                self.start = start

            def get(self):
                return type(self).__name__, self.start

        self.assertEqual(get(task.remote(41)), 42)
        self.assertEqual([get(one) for one in numbers.remote(3)], [0, 1, 2])
        counter = Counter.remote(5)
        self.addCleanup(ray.kill, counter)
        self.assertEqual(get(counter.get.remote()), ("Counter", 5))
        self.assertEqual(get(task.options(num_gpus=0.5).remote(1)), 2)  # a larger share is no harm
        for made in (lambda: task.options(num_gpus=0.1).remote(1), lambda: Counter.options(num_gpus=0.1).remote(5).get.remote()):
            with self.assertRaisesRegex(Exception, r"this task has num_gpus=0\.1, and its worker a limit of 25% of the GPU"):
                get(made())
        with self.assertRaisesRegex(Exception, "is not under cubfc, and nothing limits its GPU memory"):
            get(ray.remote(num_gpus=0.25)(cubfc.ray.check).remote())
        self.assertEqual(get(task.options(**cubfc.ray.options(num_gpus=0.1)).remote(1)), 2)

    def test_explicit_values_by_the_plugin(self):
        task = ray.remote(num_gpus=0.25, runtime_env={"cubfc": {"mem_limit": "3GiB"}})(take)
        self.assert_about(get(task.remote()), 3 * GIB)
        wrong = ray.remote(num_gpus=0.25, runtime_env={"cubfc": {"mem_limt": "3GiB"}})(take)
        with self.assertRaisesRegex(Exception, "mem-limt"):
            get(wrong.remote())
        with self.assertRaisesRegex(Exception, "should have options of `cubfc run`"):
            get(ray.remote(num_gpus=0.25, runtime_env={"cubfc": 3})(take).remote())

    def test_what_else_the_environment_has_stays(self):
        made = cubfc.ray.options(num_gpus=0.25, runtime_env={"env_vars": {"MINE": "1", "LD_PRELOAD": "/lib/x86_64-linux-gnu/libm.so.6"}})
        seen = get(ray.remote(**made)(lambda: (os.environ["MINE"], os.environ["LD_PRELOAD"].split(":")[0], cubfc.is_active())).remote())
        self.assertEqual(seen, ("1", "/lib/x86_64-linux-gnu/libm.so.6", True))

    def test_what_cannot_be_used_is_said_before_anything_runs(self):
        for wrong, words in (({"num_gpus": 0}, "is no share of a GPU"), ({"num_gpus": 1.5}, "is no share of a GPU"),
                             ({"num_gpus": "x"}, "is no share of a GPU"), ({"num_gpus": 0.25, "mem_limit": "1GiB"}, "the share of the GPU is the limit"),
                             ({"num_gpus": 2, "group": "a"}, "whole number"), ({"num_gpus": 0.25, "group": "a", "actors": 5}, "are not on one GPU"),
                             ({"num_gpus": 0.25, "mem_limt": 1}, "mem-limt")):
            with self.assertRaisesRegex(ValueError, words):
                cubfc.ray.options(**wrong)
        self.assertEqual(cubfc.ray.options(num_gpus=2, show_stats=True)["num_gpus"], 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
