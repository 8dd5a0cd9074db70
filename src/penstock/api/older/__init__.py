"""The older API of Flink's connector, `FlinkKafkaConsumer` and `FlinkKafkaProducer`.

Runs in the user's program, on Spark classic and Connect. Invariant: a consumer becomes a `KafkaSource`, and a
producer a `KafkaSink`. Nothing here reads or writes by itself.
"""
