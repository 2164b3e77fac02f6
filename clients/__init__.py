"""The private half: what runs beside the data.

``app`` holds the Flower handlers, ``respond`` the path from a query to a report,
``statistics`` what may be asked about a user; ``update_mod`` makes an app's training
private; ``terms`` and ``node`` are what both share: the rules of a node, and answers
that are paid once.
"""

from .app import LdpClientApp, attach
from .refusal import Refusal
from .update_mod import LdpUpdateMod

__all__ = ["LdpClientApp", "LdpUpdateMod", "Refusal", "attach"]
