"""A Ray cluster of this machine for tests, and actors that are used again, since each takes a second to start."""

from __future__ import annotations

import os
import sys
import time
import warnings
from contextlib import contextmanager

#: Bytes of the object store of a node.
STORE = 80 * 2**20


#: What every node is started with.
NODE = {"include_dashboard": False, "object_store_memory": STORE}


@contextmanager
def ray_started(num_cpus=4):
    """Ray with one node, on this machine, for the time of the block; gives the cluster, to which nodes can be added."""
    # Actors find the modules that this process does.
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    os.environ.setdefault("RAY_OBJECT_STORE_ALLOW_SLOW_STORAGE", "1")  # where shared memory is tiny it is on disk
    os.environ.setdefault("RAY_AUTH_MODE", "disabled")
    import ray
    from ray.cluster_utils import Cluster

    with quiet():
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": num_cpus, **NODE})
        ray.init(address=cluster.address, log_to_driver=False)
    try:
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


@contextmanager
def quiet():
    """Without the warnings of Ray's own start."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"ray\\..*")
        yield


class UsedAgain:
    """Stands in for the library where actors are made and killed: those that would be killed are taken again."""

    def __init__(self):
        import ray

        self._ray = ray
        self.idle = []

    def __getattr__(self, name):
        return getattr(self._ray, name)

    def remote(self, kind):
        return _Maker(self, self._ray.remote(kind))

    def kill(self, actor, no_restart=True):
        self.idle.append(actor)


class _Maker:
    def __init__(self, stock, kind):
        self._stock, self._kind = stock, kind

    def options(self, **options):
        self._kind = self._kind.options(**options)
        return self

    def remote(self):
        return self._stock.idle.pop() if self._stock.idle else self._kind.remote()


def ended(pid):
    """Wait until a process is gone; a bound for a hang."""
    for _ in range(600):
        try:
            os.kill(pid, 0)
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rpartition(")")[2].split()[0] == "Z":
                    return
        except (ProcessLookupError, FileNotFoundError):
            return
        time.sleep(0.1)
    raise AssertionError(f"process {pid} goes on")
