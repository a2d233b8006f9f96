"""cubfc on Ray: the share of a GPU that a task asks for is its limit of GPU memory, too.

    import cubfc.ray

    @cubfc.ray.remote(num_gpus=0.25)
    def train(): ...

Ray itself limits no GPU memory: `num_gpus=0.25` only says how many tasks share a GPU. A worker's environment is made before its
task, and knows no share; so both are made of one number here. Another share is another environment, and another worker of Ray's.

The package cubfc must be at the same path on all nodes, or the plugin be used (Plugin).
"""
from __future__ import annotations

import functools
import inspect
import os
from typing import Any, Callable, Optional

import ray
from ray._private.runtime_env.plugin import RuntimeEnvPlugin

import cubfc

__all__ = ["Plugin", "check", "options", "remote"]

# Ray counts shares to a ten-thousandth.
_LEAST_SHARE = 0.0001


def options(num_gpus: float, *, group: Optional[str] = None, actors: int = 1, runtime_env: Optional[dict[str, Any]] = None,
            **cubfc_options: Any) -> dict[str, Any]:
    """What makes a task, or an actor, of a share of a GPU: for `ray.remote(**...)` and `.options(**...)`.

        @ray.remote(**cubfc.ray.options(num_gpus=0.25), max_retries=0)

    num_gpus: below 1 it is the limit, too, of that share of each GPU that the worker sees. From 1 on the worker has whole GPUs,
    and no limit but what the options say.

    group: instead of a limit for each, the processes of this name share one on each GPU: that of `actors` actors with this
    num_gpus. For an actor class of which so many are on a GPU.

    runtime_env: what else the worker's environment is to have. Other options are those of `cubfc run`, with underscores:
    trace_stacks=32, show_stats=True.

    Raises ValueError for what cannot be used, FileNotFoundError where the command or the library is missing.
    """
    if not isinstance(num_gpus, (int, float)) or num_gpus < _LEAST_SHARE or (num_gpus > 1 and num_gpus != int(num_gpus)):
        raise ValueError(f"cubfc.ray: num_gpus={num_gpus!r} is no share of a GPU: 0.25, or a whole number of GPUs")
    if num_gpus < 1:
        cubfc_options.setdefault("limit_origin", f"num_gpus={num_gpus:g}")
        cubfc_options = _limited(num_gpus, group, actors, cubfc_options)
    elif group is not None:
        raise ValueError("cubfc.ray: a group shares parts of a GPU, and num_gpus is a whole number of them")
    all_of_it = dict(runtime_env or {})
    all_of_it["env_vars"] = _joined(all_of_it.get("env_vars") or {}, cubfc.environment(**cubfc_options))
    return {"num_gpus": num_gpus, "runtime_env": all_of_it}


def remote(num_gpus: float, **more: Any) -> Callable[[Any], Any]:
    """A decorator in the place of `ray.remote`: with options(), and check() at the start of each task and each actor.

    Takes what options() takes.
    """
    made = options(num_gpus, **more)

    def decorate(function_or_class: Any) -> Any:
        return ray.remote(**made)(_checked(function_or_class))
    return decorate


def check() -> None:
    """In a task or an actor: raises RuntimeError where its share of a GPU is smaller than its limit, or there is no limit.

    That is so after `task.options(num_gpus=0.1)`, which changes the share and not the limit; and where a worker was started
    without cubfc.
    """
    share = ray.get_runtime_context().get_assigned_resources().get("GPU", 0)
    if not cubfc.is_active():
        raise RuntimeError(f"cubfc.ray: this worker (num_gpus={share:g}) is not under cubfc, and nothing limits its GPU memory: "
                           "give the task its options by cubfc.ray.options")
    limit = os.environ.get("CUBFC_MEM_LIMIT", "")
    if share < 1 and limit.endswith("%") and float(limit[:-1]) > 100 * share + 0.01:
        raise RuntimeError(f"cubfc.ray: this task has num_gpus={share:g}, and its worker a limit of {limit} of the GPU, which is more: "
                           "give it both by .options(**cubfc.ray.options(num_gpus=...))")


class Plugin(RuntimeEnvPlugin):  # type: ignore[misc]
    """Explicit values by Ray's own way: `runtime_env={"cubfc": {"mem_limit": "20GiB"}}`, with the options of `cubfc run`.

    Each node makes the environment itself, of the cubfc that is installed there. The node and the driver are started with

        RAY_RUNTIME_ENV_PLUGINS='[{"class": "cubfc.ray.Plugin"}]'

    Ray tells a plugin nothing of the task, so no share becomes a limit here.
    """

    name = "cubfc"

    @staticmethod
    def validate(runtime_env_dict: dict[str, Any]) -> None:
        """Ray calls it where the environment is asked for. Raises ValueError for what is no dictionary."""
        values = runtime_env_dict.get("cubfc")
        if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
            raise ValueError(f'runtime_env["cubfc"] is {values!r}, and should have options of `cubfc run`: {{"mem_limit": "20GiB"}}')

    def modify_context(self, uris: list[str], runtime_env: Any, context: Any, logger: Any) -> None:
        """Ray calls it on the node, before a worker starts."""
        values = runtime_env.get("cubfc")
        if values:
            context.env_vars = _joined(context.env_vars, cubfc.environment(**values))


def _limited(num_gpus: float, group: Optional[str], actors: int, cubfc_options: dict[str, Any]) -> dict[str, Any]:
    taken = [name for name in ("mem_limit", "mem_fraction", "group_limit") if name in cubfc_options]
    if taken:
        raise ValueError(f"cubfc.ray: {taken[0]} beside num_gpus={num_gpus}: the share of the GPU is the limit")
    if group is None:
        return cubfc_options | {"mem_limit": _percent(num_gpus)}
    if actors < 1 or actors * num_gpus > 1 + _LEAST_SHARE:
        raise ValueError(f"cubfc.ray: {actors} actors with num_gpus={num_gpus} are not on one GPU")
    return cubfc_options | {"group": group, "group_limit": _percent(min(1.0, actors * num_gpus))}


def _percent(share: float) -> str:
    return f"{100 * share:.2f}".rstrip("0").rstrip(".") + "%"


def _joined(theirs: dict[str, str], ours: dict[str, str]) -> dict[str, str]:
    """Another library that is preloaded stays before ours."""
    preloaded = [path for path in (theirs.get("LD_PRELOAD", ""), ours["LD_PRELOAD"]) if path]
    return theirs | ours | {"LD_PRELOAD": ":".join(preloaded)}


def _checked(function_or_class: Any) -> Any:
    if inspect.isclass(function_or_class):
        class Checked(function_or_class):  # type: ignore[misc]
            def __init__(self, *words: Any, **named: Any) -> None:
                check()
                super().__init__(*words, **named)
        return functools.wraps(function_or_class, updated=())(Checked)
    if inspect.isgeneratorfunction(function_or_class):
        @functools.wraps(function_or_class)
        def generate(*words: Any, **named: Any) -> Any:
            check()
            yield from function_or_class(*words, **named)
        return generate

    @functools.wraps(function_or_class)
    def run(*words: Any, **named: Any) -> Any:
        check()
        return function_or_class(*words, **named)
    return run
