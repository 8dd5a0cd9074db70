"""A proxy before each broker that knows Kafka's frames: it loses or delays one chosen request or answer.

Runs in the process of a hunt, on a thread of its own. The processes that use it import `tests.chaos.proxied`.
Invariant: what it forwards is unchanged and in order. So a client sees only what a network can do: a
connection that ends before or after a request took effect, or a request that arrives late.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections import deque
from dataclasses import dataclass
from types import TracebackType

from tests.waiting import PATIENCE_S

APIS = {
    "Produce": 0,
    "Fetch": 1,
    "OffsetCommit": 8,
    "OffsetFetch": 9,
    "FindCoordinator": 10,
    "JoinGroup": 11,
    "Heartbeat": 12,
    "SyncGroup": 14,
    "DescribeGroups": 15,
    "InitProducerId": 22,
    "AddPartitionsToTxn": 24,
    "AddOffsetsToTxn": 25,
    "EndTxn": 26,
    "ListTransactions": 66,
    "DescribeTransactions": 65,
    "TxnOffsetCommit": 28,
}
"""Kafka's numbers of the requests that a continuous query or an exactly-once sink sends."""

LOST_ANSWER, LOST_REQUEST, LATE_REQUEST, LATE_ANSWER = FAULTS = (
    "lost answer",
    "lost request",
    "late request",
    "late answer",
)
"""A late request reaches the broker after its client has lost the connection and gone on."""
DOUBLED_REQUEST, HELD_REQUEST = "doubled request", "held request"
"""A doubled request reaches the broker twice, and the client gets the first answer. A held request reaches
the broker when `release` is called, after its client has lost the connection and gone on."""
_TO_NOBODY = -1


@dataclass
class Strike:
    """One fault that is still to come.

    Attributes:
        api: the name of the request.
        fault: one of FAULTS, DOUBLED_REQUEST or HELD_REQUEST.
        skipped: how many requests of this kind pass before.
        seconds: how long what is late is held.
    """

    api: str
    fault: str
    skipped: int = 0
    seconds: float = 0.0


class AnswerProxies:
    """A proxy for each broker, from entry to exit.

    Args:
        bootstrap: `host:port` of each broker, separated by commas.
    """

    def __init__(self, bootstrap: str) -> None:
        self._targets = [server.rsplit(":", 1) for server in bootstrap.split(",")]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="answer-proxy", daemon=True)
        self._servers: list[asyncio.Server] = []
        self._writers: set[asyncio.StreamWriter] = set()
        self._armed: Strike | None = None
        self._lock = threading.Lock()
        self._ports: dict[str, int] = {}
        self._released = asyncio.Event()
        self._held_count = 0
        self._deliveries: set[asyncio.Task[None]] = set()

    def __enter__(self) -> AnswerProxies:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(PATIENCE_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(PATIENCE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()

    @property
    def routes(self) -> str:
        """Return the addresses of the brokers and the ports of their proxies, for `tests.chaos.proxied`."""
        return json.dumps(self._ports)

    @property
    def ports(self) -> dict[str, int]:
        """Return the ports of the proxies by `host:port` of the brokers."""
        return self._ports

    def release(self) -> None:
        """Let the broker have the requests that are held. Return when it has answered them."""
        if self._held_count:
            asyncio.run_coroutine_threadsafe(self._release(), self._loop).result(PATIENCE_S)

    async def _release(self) -> None:
        self._released.set()
        while self._held_count:
            await asyncio.sleep(0.01)
        self._released.clear()

    def arm(self, strike: Strike) -> None:
        """Let this fault happen once. It takes the place of one that has not happened."""
        with self._lock:
            self._armed = strike

    def disarm(self) -> bool:
        """Return whether the last fault has happened. It will not happen any more."""
        with self._lock:
            has_struck, self._armed = self._armed is None, None
        return has_struck

    @property
    def has_struck(self) -> bool:
        """Return whether the last fault has happened."""
        with self._lock:
            return self._armed is None

    def cut(self) -> bool:
        """Break all connections that are open now. Return whether there was one."""
        has_one = bool(self._writers)
        self._loop.call_soon_threadsafe(self._cut)
        return has_one

    def _cut(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _listen(self) -> None:
        for host, port in self._targets:
            target = (host, int(port))

            async def serve(
                reader: asyncio.StreamReader,
                writer: asyncio.StreamWriter,
                target: tuple[str, int] = target,
            ) -> None:
                with contextlib.suppress(asyncio.CancelledError):  # asyncio would print it at the end
                    await self._serve(reader, writer, target)

            server = await asyncio.start_server(serve, "127.0.0.1", 0)
            self._servers.append(server)
            self._ports[f"{host}:{port}"] = server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        self._cut()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: tuple[str, int]
    ) -> None:
        self._writers.add(writer)
        try:
            from_broker, to_broker = await asyncio.open_connection(*target)
        except OSError:
            writer.transport.abort()
            self._writers.discard(writer)
            return
        self._writers.add(to_broker)
        asked: deque[int] = deque()
        ways = [
            asyncio.ensure_future(self._ask(reader, writer, to_broker, asked)),
            asyncio.ensure_future(self._tell(from_broker, writer, asked)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            for end in (writer, to_broker):
                end.transport.abort()
                self._writers.discard(end)

    async def _ask(
        self,
        reader: asyncio.StreamReader,
        client: asyncio.StreamWriter,
        broker: asyncio.StreamWriter,
        asked: deque[int],
    ) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                frame = await _frame(reader)
                api = int.from_bytes(frame[4:6], "big")
                strike = self._due(api, is_request=True)
                if strike is not None and strike.fault == DOUBLED_REQUEST:
                    asked.extend((api, _TO_NOBODY))
                    broker.write(frame + frame)
                    await broker.drain()
                    continue
                if strike is not None:
                    client.transport.abort()
                    if strike.fault == HELD_REQUEST:
                        self._hold(frame, broker.get_extra_info("peername"))
                    if strike.fault in (LOST_REQUEST, HELD_REQUEST):
                        return
                    await asyncio.sleep(strike.seconds)
                    broker.write(frame)
                    await broker.drain()
                    await asyncio.sleep(1.0)  # the broker drops a request whose connection ends at once
                    return
                asked.append(api)
                broker.write(frame)
                await broker.drain()

    def _hold(self, frame: bytes, target: tuple[str, int]) -> None:
        self._held_count += 1
        task = asyncio.ensure_future(self._deliver(frame, target))
        self._deliveries.add(task)
        task.add_done_callback(self._deliveries.discard)

    async def _deliver(self, frame: bytes, target: tuple[str, int]) -> None:
        """Send a request on a connection of its own when it is released, and wait for its answer."""
        try:
            await self._released.wait()
            from_broker, to_broker = await asyncio.open_connection(*target)
            to_broker.write(frame)
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await _frame(from_broker)
            to_broker.transport.abort()
        finally:
            self._held_count -= 1

    async def _tell(
        self, broker: asyncio.StreamReader, client: asyncio.StreamWriter, asked: deque[int]
    ) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                frame = await _frame(broker)
                api = asked.popleft()
                if api == _TO_NOBODY:
                    continue
                strike = self._due(api, is_request=False)
                if strike is not None and strike.fault == LOST_ANSWER:
                    return
                if strike is not None:
                    await asyncio.sleep(strike.seconds)
                client.write(frame)
                await client.drain()

    def _due(self, api: int, *, is_request: bool) -> Strike | None:
        with self._lock:
            armed = self._armed
            if armed is None or APIS[armed.api] != api:
                return None
            if is_request is (armed.fault in (LOST_ANSWER, LATE_ANSWER)):
                return None
            if armed.skipped > 0:
                armed.skipped -= 1
                return None
            self._armed = None
            return armed


async def _frame(reader: asyncio.StreamReader) -> bytes:
    length = await reader.readexactly(4)
    return length + await reader.readexactly(int.from_bytes(length, "big"))
