"""The private half: what runs beside the data.

``app`` holds the Flower handlers, ``respond`` the path from a query to a report,
``statistics`` what may be asked about a user.
"""

from .app import LdpClientApp, attach
from .node import Refusal

__all__ = ["LdpClientApp", "Refusal", "attach"]
