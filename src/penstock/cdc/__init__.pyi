"""The only list of the public names of `penstock.cdc` and their modules. See penstock/_lazy.py."""

from penstock.cdc.batch import SourceTopic as SourceTopic
from penstock.spark.replicate import replicate as replicate

__all__: list[str]
