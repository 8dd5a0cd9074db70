"""The id of a query's run, from what Spark tells a task."""

from __future__ import annotations

import pytest

from penstock.errors import StateError
from penstock.spark._task_context import run_id_in

RUN = "8f0c1c1e-7a35-4a2c-9d0f-0b1a2c3d4e5f"
OTHER = "00000000-7a35-4a2c-9d0f-0b1a2c3d4e5f"


@pytest.mark.parametrize(
    ("group", "description"),
    [
        (RUN, "mine"),
        ("mine", f"copy\nid = {OTHER}\nrunId = {RUN}\nbatch = 3"),
        (OTHER, f"id = {OTHER}\nrunId = {RUN}\nbatch = 3"),
    ],
)
def test_the_id_of_the_run_is_found_although_the_user_has_set_one_of_the_texts(
    group: str, description: str
) -> None:
    assert run_id_in(group, description) == RUN


def test_a_job_group_of_the_user_is_refused() -> None:
    with pytest.raises(StateError, match="job group is 'mine' and not the id of the query's run"):
        run_id_in("mine", "mine")
