"""penstock: what Flink users have with Kafka, for PySpark users. Public names; nothing else."""

__version__ = "0.1.0"
__all__ = ["__version__"]
