"""What is raised if an app cannot be attacked."""


class CannotAuditError(ValueError):
    """An app that cannot be attacked; the text says what to give."""
