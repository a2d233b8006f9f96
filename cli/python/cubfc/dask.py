"""cubfc on Dask: workers that start under the library.

    import cubfc.dask

    with cubfc.dask.preloaded(mem_limit="20GiB"):
        cluster = LocalCluster(n_workers=2)
    client = Client(cluster)
    client.register_plugin(cubfc.dask.Required())

A worker's `env` (of Nanny, of LocalCluster's worker_kwargs) is set in a process that runs already: it preloads nothing, and says
nothing. What is set before a worker's process starts is Dask's `distributed.nanny.pre-spawn-environ`.
"""
from __future__ import annotations

import contextlib
import os
from typing import Any, Iterator

import dask.config
from distributed.diagnostics.plugin import WorkerPlugin

import cubfc

__all__ = ["Required", "preloaded"]

_BEFORE_SPAWN = "distributed.nanny.pre-spawn-environ"


@contextlib.contextmanager
def preloaded(**options: Any) -> Iterator[None]:
    """For a `with` statement: the workers of nannies that are made in it start under cubfc, with these options.

    Also when they are restarted later. Options are those of `cubfc run`, with underscores. A worker of the command line has it by
    `cubfc run -- dask worker`.

    Dask leaves such variables in the environment of the process that has started a worker. They are taken out at the end of the
    statement; after a later restart they are there again, and with them what this process itself starts is under cubfc.

    Raises ValueError for an option or a value that cannot be used, FileNotFoundError where the command or the library is missing.
    """
    variables = cubfc.environment(**options)
    before = {name: os.environ.get(name) for name in variables}
    with dask.config.set({_BEFORE_SPAWN: {**dask.config.get(_BEFORE_SPAWN, {}), **variables}}):
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


class Required(WorkerPlugin):  # type: ignore[misc]
    """A plugin with which a worker that is not under cubfc says so and ends, its nanny, too: for `client.register_plugin`."""

    name = "cubfc-required"

    def setup(self, worker: Any) -> None:
        """Dask calls it in each worker, also in those that come later. Raises RuntimeError, which `register_plugin` raises, too."""
        if not cubfc.is_active():
            # In a worker that comes later, Dask ignores that the plugin fails, and goes on: so the
            # worker is closed here.
            worker.loop.add_callback(worker.close, reason=self.name)
            raise RuntimeError(f"cubfc.dask: the worker {worker.address} is not under cubfc, and nothing limits its GPU memory: start "
                               "workers within cubfc.dask.preloaded(), or by `cubfc run -- dask worker`")
