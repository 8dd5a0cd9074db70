-- modes: streaming
SELECT u.v, COUNT(*) AS n, SUM(u.o) AS o FROM staff AS s CROSS JOIN UNNEST(ARRAY[s.team, s.name, CAST(s.id AS STRING)]) WITH ORDINALITY AS u (v, o) GROUP BY u.v;
