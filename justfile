# The commands of a contributor's day; `just` lists them.
default:
    @just --list

# Lint, format, the rules of the rooms: seconds.
check:
    ruff check . && ruff format --check .
    pytest -q tests/layout

# What a change touches: just test tests/clients
test *paths="tests":
    pytest -n 2 --dist loadfile {{paths}}

# Audits and many seeds: minutes.
slow:
    pytest -n 3 --dist worksteal -m "slow and not long"

# Which test runs which line, in half an hour; `coverage html --show-contexts` shows it.
coverage:
    pytest -n 2 --dist loadfile --cov=ldp_flower --cov=strategies --cov=clients \
        --cov-context=test --cov-report=

# The site, without warnings.
site:
    python -m sphinx -W docs site

# All of it, in a fresh environment, with types.
ci:
    .ci/run
