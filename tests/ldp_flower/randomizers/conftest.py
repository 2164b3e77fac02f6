import sys
from pathlib import Path

# The tests here import `word_sources` from this folder.
sys.path.insert(0, str(Path(__file__).parent))
