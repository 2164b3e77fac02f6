"""Statistics of what users hold."""
