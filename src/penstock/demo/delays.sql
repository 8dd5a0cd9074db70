-- The job of `penstock demo` as a script: delays of flights for each carrier and day.
SET 'table.local-time-zone' = 'UTC';
SET 'execution.checkpointing.dir' = '/checkpoints';

CREATE TABLE flights (
  carrier STRING,
  flight INT,
  origin STRING,
  dest STRING,
  dep_delay INT,
  arr_delay INT,
  event_time TIMESTAMP(3) METADATA FROM 'timestamp' VIRTUAL,
  WATERMARK FOR event_time AS event_time - INTERVAL '1' DAY
) WITH (
  'connector' = 'kafka',
  'topic' = 'flights',
  'properties.bootstrap.servers' = 'localhost:9092',
  'scan.startup.mode' = 'earliest-offset',
  'scan.bounded.mode' = 'latest-offset',
  'format' = 'json'
);

CREATE TABLE delays (
  `day` STRING,
  carrier STRING,
  flights BIGINT,
  departed BIGINT,
  delay_minutes BIGINT,
  late BIGINT
) WITH (
  'connector' = 'kafka',
  'topic' = 'delays',
  'properties.bootstrap.servers' = 'localhost:9092',
  'key.format' = 'raw',
  'key.fields' = 'carrier',
  'value.format' = 'json'
);

INSERT INTO delays
SELECT
  DATE_FORMAT(window_start, 'yyyy-MM-dd'),
  carrier,
  COUNT(*),
  COUNT(dep_delay),
  COALESCE(SUM(dep_delay), 0),
  COUNT(*) FILTER (WHERE dep_delay > 15)
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(event_time), INTERVAL '1' DAY))
GROUP BY window_start, window_end, carrier;
