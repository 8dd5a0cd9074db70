CREATE TABLE told (id BIGINT, p INT METADATA FROM 'partition' VIRTUAL, o BIGINT METADATA FROM 'offset' VIRTUAL,
  at_ TIMESTAMP(3) METADATA FROM 'timestamp' VIRTUAL, kind STRING METADATA FROM 'timestamp-type' VIRTUAL)
WITH ('connector' = 'kafka', 'topic' = '${in}payments', ${read}, 'format' = 'json');
SELECT o, p, at_, kind FROM told;
