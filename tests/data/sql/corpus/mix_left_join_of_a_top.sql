-- modes: streaming
SELECT t.id, t.team, x.id AS best FROM teams AS t LEFT JOIN (SELECT id, team FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY team ORDER BY pay DESC, id) AS rn FROM staff) WHERE rn = 1) AS x ON t.team = x.team WHERE x.id IS NULL OR x.id > 1;
