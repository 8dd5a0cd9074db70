-- quick in streaming
SELECT v, COUNT(*) AS n FROM (SELECT k, v FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) AS place FROM changes) WHERE place = 1) GROUP BY v;
