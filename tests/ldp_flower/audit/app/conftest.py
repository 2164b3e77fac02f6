import sys
from pathlib import Path

# Where apps are written and described is shared by the tests here.
sys.path.insert(0, str(Path(__file__).parent))
