"""Audit: attacks that try to break the guarantee of a protocol's clients.

* ``handler`` attacks a whole client; ``enumeration`` computes the privacy loss of exact mechanisms.
* ``runs`` records a protocol's queries; ``probe`` calls clients with replayed randomness, and notes
  the values that reach a mechanism; ``distinguish`` distinguishes two users' reports.
* ``independence`` checks that users do not share noise.
* ``deployed_node`` starts nodes as in a deployment; ``neighbours`` compares neighbouring ones;
  ``settings`` checks the effects of the operator's settings.
* ``node_sums`` attacks noise at the node.
* ``network_records`` attacks a node that trains networks.
* ``records`` measures how far one record moves a silo's sum; ``extreme_users`` makes the users of
  all these nodes.
"""

from .enumeration import exact_epsilon, extreme_inputs, worst_epsilon
from .extreme_users import extreme_holders, extreme_silos, extreme_users, extremes
from .handler import Audit, audit_handler
from .network_records import NetworkAudit, audit_network
from .runs import recorded_queries

__all__ = [
    "Audit",
    "NetworkAudit",
    "audit_handler",
    "audit_network",
    "exact_epsilon",
    "extreme_holders",
    "extreme_inputs",
    "extreme_silos",
    "extreme_users",
    "extremes",
    "recorded_queries",
    "worst_epsilon",
]
