"""Long runs by hand, not in `make ci`: the source under faults (`tests.soak`), `.memory` and `.leaks`."""
