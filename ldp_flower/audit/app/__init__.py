"""Audit of a Flower app that was not written with this library.

``loading`` imports the app, and ``loader`` changes the data that its functions return. ``node``
hears a run of its ServerApp, and answers the messages of this run. ``variants`` makes neighbouring
data. ``leaks`` compares replies without noise, ``claims`` reads mechanisms, and ``classifier``
bounds the privacy loss of noisy replies. ``attack`` runs the whole audit, and ``findings`` holds
its result.
"""

from .attack import audit_app
from .findings import AppAudit, CannotAuditError, Finding
from .loading import AuditedApp
from .options import Options

__all__ = ["AppAudit", "AuditedApp", "CannotAuditError", "Finding", "Options", "audit_app"]
