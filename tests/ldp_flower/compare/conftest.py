import sys
from pathlib import Path

# The tests here import `tiny_model` from this folder, and so does the app that they write.
sys.path.insert(0, str(Path(__file__).parent))
