-- modes: streaming
CREATE TABLE target (who STRING, n BIGINT, total DECIMAL(38, 2), PRIMARY KEY (who) NOT ENFORCED)
WITH ('connector' = 'upsert-kafka', 'topic' = '${new}target', ${upsert}, 'key.format' = 'json', 'value.format' = 'json');
INSERT INTO target SELECT COALESCE(team, 'none'), COUNT(*), SUM(pay) FROM staff GROUP BY COALESCE(team, 'none');
SELECT t.who, t.n, t.total, g.id FROM target AS t LEFT JOIN teams AS g ON g.team = t.who;
