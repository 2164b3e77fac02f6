"""Any model that an app trains."""
