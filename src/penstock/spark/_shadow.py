"""Let the sink of a shadow write where its checkpoint says, and never where the running job writes.

Runs on the driver, in the process that plans the writes. Invariant: the options of a job that runs with the
checkpoint of a shadow need no change, and none of its records gets into the topic of the running job.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from penstock.errors import OptionError
from penstock.observe.shadow_note import ShadowNote, read_note
from penstock.options.config import DeliveryGuarantee, SinkConfig

_log = logging.getLogger(__name__)


def as_shadow(config: SinkConfig) -> SinkConfig:
    """Return the settings of a streaming write: those of the user, or those of a shadow.

    Raises:
        OptionError: the checkpoint is a shadow's, and the write is not exactly-once, or of several topics.
        CheckpointError: the note of the shadow cannot be read.
    """
    location = config.checkpoint_location
    if location is None or ("://" in location and not location.startswith("file://")):
        return config
    note = read_note(location.removeprefix("file://").removeprefix("file:"))
    if note is None:
        return config
    _check(config, note)
    _log.info(
        "This query is a shadow of query %s: it writes to %s in place of %s, under the prefix %s.",
        note.live_query_id,
        note.topic,
        note.live_topic,
        note.prefix,
    )
    return replace(
        config,
        topic=note.topic,
        transactional_id_prefix=note.prefix,
        commit_log_topic=note.log_topic,
        fails_on_new_query=False,
    )


def _check(config: SinkConfig, note: ShadowNote) -> None:
    if config.delivery_guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
        raise OptionError(
            f"The checkpoint is that of a shadow of query {note.live_query_id}, which has to write "
            f"exactly-once to be compared, but sink.delivery-guarantee is {config.delivery_guarantee.value}. "
            "Nothing was written. Set it to exactly-once.",
            option="sink.delivery-guarantee",
            value=config.delivery_guarantee.value,
        )
    if config.topic not in (note.live_topic, note.topic):
        names = "each row names its topic" if config.topic is None else f"topic is {config.topic}"
        raise OptionError(
            f"The checkpoint is that of a shadow of query {note.live_query_id}, which writes to "
            f"{note.live_topic}, but in this job {names}. Nothing was written. A shadow has one topic. Set "
            f"topic = {note.live_topic}.",
            option="topic",
            value=config.topic,
        )
