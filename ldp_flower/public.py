"""The public names of :mod:`ldp_flower`, which imports them when one of them is first used."""

from .data.items import hash_items as hash_items
from .data.schema import Categories as Categories
from .data.schema import Numeric as Numeric
from .data.schema import Schema as Schema
from .data.table_file import read_table as read_table
from .data.users import Users as Users
from .guarantee.arms import assigned_arms as assigned_arms
from .guarantee.budget import PrivacyPolicy as PrivacyPolicy
from .planning import plan as plan
from .simulation.generated import GeneratedUsers as GeneratedUsers
from .simulation.grid import InProcessGrid as InProcessGrid
from .simulation.run import simulate as simulate
