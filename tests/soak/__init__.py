"""Long runs by hand, not in `make test`: the source under faults (`tests.soak`), `.memory` and `.leaks`."""
