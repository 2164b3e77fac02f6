"""What becomes of errors: codes decide, texts are shown."""

import sqlite3

import pytest

from ldp_flower.strategies.runtime.census import advice
from ldp_flower.strategies.runtime.run_store import OTHER_SCHEMA, Failure, RunStore


@pytest.mark.parametrize(
    ("failure", "shown"),
    [
        (Failure(102, "Nothing is left."), "error 102: Nothing is left."),
        (Failure(OTHER_SCHEMA, "it lacks x"), "another schema: it lacks x"),
        (Failure(0, "error 103: as it was"), "error 103: as it was"),
    ],
)
def test_a_failure_is_kept_by_its_code_and_shown_in_words(tmp_path, failure, shown):
    for path in (None, tmp_path / "run.db"):
        with RunStore(path).open() as store:
            store.add_replies(3, [(7, None, failure), (8, b"report", None)])
            assert store.replies(3) == {7: (None, failure), 8: (b"report", None)}
            assert str(store.replies(3)[7][1]) == shown


def test_a_store_of_a_version_before_is_read(tmp_path):
    with sqlite3.connect(tmp_path / "old.db") as old:
        old.execute(
            "CREATE TABLE reply (step INTEGER, node TEXT, content BLOB, error TEXT, "
            "PRIMARY KEY (step, node))"
        )
        old.execute("INSERT INTO reply VALUES (1, '5', NULL, 'error 102: as it was')")
    with RunStore(tmp_path / "old.db").open() as store:
        assert str(store.replies(1)[5][1]) == "error 102: as it was"
        store.add_replies(1, [(5, b"report", None)])
        assert store.replies(1) == {5: (b"report", None)}


def test_advice_is_by_code_and_words():
    assert "put an instance first" in advice([(2, "ValueError: anything")])
    assert "@app.train" in advice([(2, "x No train function registered y")])
    assert "first of the mods" in advice([(6, "")])
    assert advice([(102, "No train function registered"), (OTHER_SCHEMA, "")]) == "."
