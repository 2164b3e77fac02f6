"""Audit of a Flower app that was not written with this library.

* ``loading`` imports the app; ``loader`` changes the data that its functions return.
* ``node`` runs the app's server once, and answers the messages of this run repeatedly.
* ``variants`` makes neighbouring data; ``data_forms`` knows the forms of records that apps use.
* ``leaks`` compares replies without noise, ``claims`` reads the settings of mechanisms, and
  ``classifier`` bounds the privacy loss of noisy replies.
* ``attack`` runs the whole audit; ``findings`` has its result.
"""

from .attack import audit_app
from .findings import AppAudit, CannotAuditError, Finding
from .loading import AuditedApp
from .options import Options

__all__ = ["AppAudit", "AuditedApp", "CannotAuditError", "Finding", "Options", "audit_app"]
