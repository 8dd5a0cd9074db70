"""Statements of Flink that penstock recognises and does not serve.

Runs on the driver. Invariant: each says what to use instead.
"""

from __future__ import annotations

_LISTED = "docs/functions.md lists the functions."
_FUNCTIONS = f"{_LISTED} More: CREATE FUNCTION ... LANGUAGE PYTHON."

STATEMENTS = {
    "CREATE CATALOG": "tables live as long as the session. Write CREATE TABLE at the top of the script.",
    "CREATE MODEL": "use a Python function: CREATE FUNCTION ... LANGUAGE PYTHON.",
    "CREATE CONNECTION": "write the options into WITH of each table, or CREATE TABLE ... LIKE.",
    "CREATE MATERIALIZED TABLE": "use INSERT INTO a table, or Spark Declarative Pipelines.",
    "CREATE SYSTEM FUNCTION": "use CREATE TEMPORARY FUNCTION ... LANGUAGE PYTHON.",
    "ALTER VIEW": "drop the view and create it as it should be.",
    "ALTER FUNCTION": "drop the function and create it as it should be.",
    "ALTER DATABASE": "a database of a session has no options.",
    "ALTER CATALOG": "there is one catalog, the session.",
    "ALTER MODEL": "use a Python function: CREATE FUNCTION ... LANGUAGE PYTHON.",
    "ALTER MATERIALIZED": "use INSERT INTO a table, or Spark Declarative Pipelines.",
    "DROP CATALOG": "there is one catalog, the session.",
    "DROP MODEL": "use a Python function: CREATE FUNCTION ... LANGUAGE PYTHON.",
    "DROP MATERIALIZED": "use INSERT INTO a table, or Spark Declarative Pipelines.",
    "DROP CONNECTION": "write the options into WITH of each table.",
    "DROP TEMPORARY SYSTEM FUNCTION": "use DROP TEMPORARY FUNCTION.",
    "SHOW JARS": "Spark loads jars when it starts: spark.jars.",
    "SHOW PARTITIONS": "SHOW CREATE TABLE shows the columns of PARTITIONED BY.",
    "SHOW PROCEDURES": "Flink's procedures do not exist here.",
    "SHOW MODELS": "models are not served. SHOW FUNCTIONS lists your Python functions.",
    "SHOW CONNECTIONS": "SHOW CREATE TABLE shows the options of a table.",
    "SHOW MATERIALIZED": "penstock has no materialized tables. SHOW TABLES lists tables and views.",
    "SHOW CREATE MATERIALIZED": "penstock has no materialized tables.",
    "SHOW CREATE CATALOG": "there is one catalog, the session.",
    "SHOW CREATE MODEL": "models are not served.",
    "SHOW FULL MODULES": _FUNCTIONS,
    "USE MODULES": _FUNCTIONS,
    "USE CATALOG": "there is one catalog, the session.",
    "LOAD": _FUNCTIONS,
    "UNLOAD": _LISTED,
    "ADD": "Spark loads jars when it starts: spark.jars. penstock itself needs none.",
    "REMOVE": "Spark loads jars when it starts: spark.jars. penstock itself needs none.",
    "CALL": "Flink's procedures do not exist here. `penstock --help` lists the commands of penstock.",
    "ANALYZE": "Spark has no statistics of Kafka topics. Leave it out.",
    "TRUNCATE": "a topic is emptied by its retention, or by deleting its records.",
    "UPDATE": "a row of a topic cannot be changed. Write a newer row of its key.",
    "DELETE": "a row of a topic cannot be changed. Write a tombstone of its key.",
    "MERGE": "write rows with INSERT INTO.",
    "QUIT": "it belongs to Flink's SQL client. Leave it out.",
    "EXIT": "it belongs to Flink's SQL client. Leave it out.",
    "CLEAR": "it belongs to Flink's SQL client. Leave it out.",
    "HELP": "`penstock sql --help` and docs/sql.md say what there is.",
    "SOURCE": "give the files in their order to `penstock sql`.",
    "COMPILE": "Spark has no compiled plans. Use INSERT INTO.",
    "REFRESH": "penstock has no materialized tables.",
    "EXECUTE PLAN": "Spark has no compiled plans. Use INSERT INTO.",
    "EXECUTE IMMEDIATE": "write the statement itself.",
}
"""The first words of a statement, and what to use instead."""
