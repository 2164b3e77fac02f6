"""The private half of the library: the code that runs beside the data.

``app`` holds the Flower handlers, ``respond`` the path from a query to a report, and ``statistics``
the values that a query can ask for. ``update_mod`` makes an app's training private,
``user_update_mod`` makes it private for several users behind a node, and ``private_training``
protects single records in training. ``effective_policy`` and ``node`` are common to all: the policy
of a node, and answers that are paid once.
"""

from .app import LdpClientApp, attach
from .private_training.network_app import NetworkClientApp
from .private_training.record_mod import RecordDpSgdMod, dp_sgd
from .private_training.users_app import NetworkUsersApp
from .reply import Refusal
from .update_mod import LdpUpdateMod
from .user_update_mod import LdpUserUpdateMod, OneUser, user_of

__all__ = [
    "LdpClientApp",
    "LdpUpdateMod",
    "LdpUserUpdateMod",
    "NetworkClientApp",
    "NetworkUsersApp",
    "OneUser",
    "RecordDpSgdMod",
    "Refusal",
    "attach",
    "dp_sgd",
    "user_of",
]
