"""The callbacks of a request that waits for its response."""

from __future__ import annotations

import pytest

from penstock.client.net.connection import PendingResponse


@pytest.mark.parametrize("is_done_before", [False, True])
def test_an_error_of_a_callback_is_logged_whether_the_response_came_before_or_after(
    is_done_before: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: PendingResponse) -> None:
        raise ValueError("as wanted")

    called: list[PendingResponse] = []
    pending = PendingResponse("a request", 1_000)
    if is_done_before:
        pending.succeed("response")
    pending.add_done_callback(fail)
    pending.add_done_callback(called.append)
    pending.succeed("response")
    assert called == [pending]
    assert "a request: a callback failed" in caplog.text
