"""The command ``ldp-flower``, as ``python -m ldp_flower.cli``."""

from .app import app

if __name__ == "__main__":
    app(prog_name="ldp-flower")
