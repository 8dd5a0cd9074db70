CREATE TABLE told (id INT, origin STRING METADATA FROM 'value.source.table' VIRTUAL, PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'kafka', 'topic' = '${in}goods', ${read}, 'format' = 'debezium-json');
SELECT origin, COUNT(*) AS n FROM told GROUP BY origin;
