"""How many examples Hypothesis tries in a test.

A test states the number of `make models` and of `make ci`. The profile in HYPOTHESIS_PROFILE scales it:

- `quick`: `make unit` and `make test`.
- `usual`: `make models`, `make ci`, and pytest without the variable.
- `thorough`: a long run after a change of a protocol, `make models PROFILE=thorough`.

An example that found a bug stays in its test as an `@example`, so that each profile tries it.
"""

from __future__ import annotations

import os

from hypothesis import settings

USUAL = 50
"""The number in a test that states none."""
_SCALES = {"quick": 0.1, "usual": 1, "thorough": 40}
_FEWEST = 3


def load_profile() -> None:
    """Make the profile of HYPOTHESIS_PROFILE the default of all tests."""
    # No deadline, because a pause of the machine is not a failure of the tested code.
    settings.register_profile("penstock", max_examples=examples(USUAL), deadline=None)
    settings.load_profile("penstock")


def examples(usual: int) -> int:
    """Return how many examples to try, where `make models` tries `usual`."""
    return max(_FEWEST, round(usual * _SCALES[os.environ.get("HYPOTHESIS_PROFILE", "usual")]))
