"""Long runs by hand, no part of `make test`: the source under faults (`tests.soak`), `.memory` and `.leaks`."""
