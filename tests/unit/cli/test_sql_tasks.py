"""`penstock sql` on one machine does not divide small work into the 200 tasks of a cluster."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest

from penstock.cli.sql import _use_few_tasks


@pytest.mark.parametrize(
    ("master", "given", "expected"),
    [("local[2]", None, "4"), ("local[*]", None, "4"), ("local[4]", "16", None), ("spark://h:1", None, None)],
)
def test_a_shuffle_on_one_machine_has_few_tasks(master: str, given: str | None, expected: str | None) -> None:
    spark = MagicMock()
    spark.sparkContext.master = master
    spark.sparkContext.getConf.return_value.get.return_value = given
    _use_few_tasks(spark)
    if expected is None:
        spark.conf.set.assert_not_called()
        return
    spark.conf.set.assert_called_once_with("spark.sql.shuffle.partitions", expected)
