"""Bugs to plant: the client's steps of a transaction."""

from __future__ import annotations

from penstock.client.transactions import append, markers, steps
from penstock.client.transactions.append import TransactionalAppender
from penstock.client.transactions.steps import Transactions
from tests.simulation.mutants.making import history, mutant
from tests.simulation.plan import Aim, Fault, Kind

CLIENT = (
    mutant(
        "a fenced end counts as done",
        steps._end_state,
        "return EndState.FENCED",
        "return EndState.DONE",
        seed=17,
    ),
    mutant(
        "an end of an unknown producer counts as done",
        steps._end_state,
        "return EndState.UNKNOWN_ID",
        "return EndState.DONE",
        found_by=history(
            Fault(1, Kind.TIME, 100, Aim.END),
            Fault(1, Kind.PAUSE, 100, Aim.END),
            task_count=3,
            first_epoch=32_765,
            is_speculative=True,
            seed=5,
        ),
    ),
    mutant(
        "a refused end counts as done",
        steps._end_state,
        "return EndState.REFUSED if",
        "return EndState.DONE if",
        seed=32,
    ),
    mutant(
        "an end without an answer counts as done",
        steps._end_state,
        "else EndState.UNKNOWN",
        "else EndState.DONE",
        seed=39,
    ),
    mutant(
        "protocol 1 is ended with the request of protocol 2",
        steps.end_request,
        "versions.END_TXN_V1 if is_v1 else versions.END_TXN_V2",
        "versions.END_TXN_V2",
        seed=15,
    ),
    mutant(
        "the end of a transaction gives no new epoch",
        steps.next_identity,
        "if identity.protocol is TransactionProtocol.V1 or response.producer_id < 0:",
        "if True:",
        seed=31,
    ),
    mutant(
        "topic partitions are not added to a transaction of protocol 1",
        Transactions.add_topic_partitions,
        "if identity.protocol is not TransactionProtocol.V1 or not topic_partitions:",
        "if True:",
        seed=9,
    ),
    mutant(
        "one broker is asked for all open transactions",
        Transactions._list_once,
        "for node_id in sorted(brokers)",
        "for node_id in sorted(brokers)[:1]",
        seed=5,
    ),
    mutant(
        "the state of a transaction does not count when strays are listed",
        steps._list_request,
        "state.value for state in sorted(_OPEN_STATES, key=lambda state: state.value)",
        "TransactionState.PREPARE_ABORT.value for _ in (1,)",
        seed=5,
    ),
    mutant(
        "protocol 1 is taken for 2",
        Transactions.protocol,
        "return TransactionProtocol.V2 if is_v2 else TransactionProtocol.V1",
        "return TransactionProtocol.V2",
        seed=15,
    ),
    mutant(
        "protocol 2 is taken for 1",
        Transactions.protocol,
        "return TransactionProtocol.V2 if is_v2 else TransactionProtocol.V1",
        "return TransactionProtocol.V1",
        harmless="a cluster with protocol 2 also serves protocol 1, which keeps the same promises",
    ),
    mutant(
        "each record of a session has sequence number 0",
        TransactionalAppender.append,
        "advance_sequence(session.next_sequence, len(records)) if is_same_epoch else 0",
        "0",
        seed=78,
    ),
    mutant(
        "a record counts as committed when it is written",
        TransactionalAppender.append,
        "result = self._transactions.end([identity], is_commit=True, timeout_ms=left_ms(deadline))[identity]",
        "return session",
        seed=5,
    ),
    mutant(
        "another producer's marker counts",
        markers.find_marker,
        "header.producer_id == producer_id and",
        "",
        seed=40,
    ),
    mutant(
        "the end of the log counts as an abort",
        markers.transaction_end,
        "return TransactionEnd.OPEN",
        "return TransactionEnd.ABORTED",
        harmless="as for a transaction without a marker yet",
    ),
    mutant(
        "a fenced write is not told as one",
        append.write_record_batch,
        "is_fencing(code)",
        "False",
        harmless="the error is another one, and the query stops as well",
    ),
)
