"""Audit of a Flower app that was not written with this library.

``loading`` imports the app, ``node`` runs its ServerApp and lets a node answer what it asked,
``sources`` finds the functions that return data, ``variants`` makes neighbouring data. ``leaks``
compares replies without noise, ``claims`` reads mechanisms, ``classifier`` judges noise.
"""

from .attack import Options, audit_app
from .findings import AppAudit, CannotAuditError, Finding, Worth
from .loading import AuditedApp

__all__ = ["AppAudit", "AuditedApp", "CannotAuditError", "Finding", "Options", "Worth", "audit_app"]
