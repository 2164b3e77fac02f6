import sys
from pathlib import Path

# The tests here share `networks`.
sys.path.insert(0, str(Path(__file__).parent))
