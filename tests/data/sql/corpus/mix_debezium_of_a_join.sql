-- modes: streaming
CREATE TABLE target (id INT, team STRING, budget DECIMAL(8, 1)) WITH ('connector' = 'kafka', 'topic' = '${new}target', ${read}, 'format' = 'debezium-json');
INSERT INTO target SELECT s.id, t.team, t.budget FROM staff AS s LEFT JOIN teams AS t ON s.team = t.team;
SELECT team, COUNT(*) AS n, SUM(budget) AS b FROM target GROUP BY team;
