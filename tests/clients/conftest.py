import sys
from pathlib import Path

# The processes that tests start here must find `deployed_node` under the same name.
sys.path.insert(0, str(Path(__file__).parent))
