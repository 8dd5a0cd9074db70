-- modes: streaming
-- differs: a NaN that goes leaves the sum of Flink NaN for ever
SELECT team, SUM(score) AS s, AVG(score) AS a, MAX(score) AS most, MIN(score) AS least FROM staff GROUP BY team;
