"""Audit of a Flower app that was not written with this library.

``loading`` imports the app. ``node`` runs its ServerApp, and lets a node answer the messages of
this run. ``sources`` finds the functions that return data, and ``variants`` makes neighbouring
data. ``leaks`` compares replies without noise, ``claims`` reads mechanisms, and ``classifier``
bounds the privacy loss of noisy replies. ``attack`` runs the whole audit, and ``findings`` holds
its result.
"""

from .attack import Options, audit_app
from .findings import AppAudit, CannotAuditError, Finding, Worth
from .loading import AuditedApp

__all__ = ["AppAudit", "AuditedApp", "CannotAuditError", "Finding", "Options", "Worth", "audit_app"]
