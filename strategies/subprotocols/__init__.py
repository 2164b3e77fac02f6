"""Questions that several protocols ask on their way."""
