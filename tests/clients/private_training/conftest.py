import sys
from pathlib import Path

# Modules of tests here share what they send.
sys.path.insert(0, str(Path(__file__).parent))
