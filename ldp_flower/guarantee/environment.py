"""Where this process runs: in a simulation, or anywhere else.

A simulation is Flower's engine (a Ray actor) or :class:`InProcessGrid`, recognised
as such. What a node's configuration looks like says nothing: everywhere else a
client insists on its operator's policy and ledger and refuses to be seeded.
"""

import sys
from contextvars import ContextVar

in_process_grid: ContextVar[bool] = ContextVar("in_process_grid", default=False)


def in_simulation() -> bool:
    """Whether the calling code runs in the in-process grid or in a Ray actor."""
    if in_process_grid.get():
        return True
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return False
    return ray.get_runtime_context().get_actor_id() is not None
