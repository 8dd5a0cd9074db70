-- modes: streaming
CREATE TABLE counts (team STRING, n BIGINT, PRIMARY KEY (team) NOT ENFORCED)
WITH ('connector' = 'upsert-kafka', 'topic' = '${new}counts', ${upsert}, 'key.format' = 'json', 'value.format' = 'json');
CREATE TABLE copies (id INT, team STRING, PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'upsert-kafka', 'topic' = '${new}copies', ${upsert}, 'key.format' = 'json', 'value.format' = 'json');
CREATE VIEW paid AS SELECT id, COALESCE(team, '-') AS team, pay FROM staff WHERE pay > 5;
EXECUTE STATEMENT SET BEGIN INSERT INTO counts SELECT team, COUNT(*) FROM paid GROUP BY team; INSERT INTO copies SELECT id, team FROM paid; END;
SELECT a.team, a.n, b.id FROM counts AS a FULL JOIN copies AS b ON a.team = b.team;
