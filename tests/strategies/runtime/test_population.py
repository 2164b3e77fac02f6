import numpy as np
import pytest

from ldp_flower.guarantee.messages import NodeKeys
from ldp_flower.strategies.runtime.population import Population

NODES = {7: NodeKeys(0, 0, 40), 3: NodeKeys(0, 40, 1), 9: NodeKeys(0, 41, 59)}


def members(population, cohort):
    found = population.addressed(cohort)
    return {(node, slot) for node, slots in found.items() for slot in slots.tolist()}


def test_cohorts_are_disjoint_of_exact_size_and_cover_everyone():
    population = Population(NODES, salt=4)
    cohorts = population.cut([10, 25]) + population.cut([65])
    groups = [members(population, cohort) for cohort in cohorts]
    assert [len(group) for group in groups] == [10, 25, 65]
    assert len(set.union(*groups)) == 100 and population.remaining == 0


def test_a_node_without_members_is_not_addressed():
    population = Population(NODES, salt=4)
    asked = [3 in population.addressed(cohort) for cohort in population.cut([20] * 5)]
    assert sum(asked) == 1


def test_another_salt_is_another_division():
    first, second = Population(NODES, 1), Population(NODES, 2)
    assert members(first, first.cut([50])[0]) != members(second, second.cut([50])[0])


def test_the_division_does_not_depend_on_how_users_are_hosted():
    def global_members(nodes):
        population = Population(nodes, 5)
        found = population.addressed(population.cut([30])[0])
        return sorted(np.concatenate([s + nodes[n].first for n, s in found.items()]))

    assert global_members(NODES) == global_members({1: NodeKeys(0, 0, 100)})


@pytest.mark.parametrize("sizes", [[0], [-1], [101], [60, 41]])
def test_impossible_cohorts_are_refused(sizes):
    with pytest.raises(ValueError, match="Expected cohorts"):
        Population(NODES, 1).cut(sizes)
