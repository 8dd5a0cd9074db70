-- modes: streaming
SELECT team, id, other, budget FROM (SELECT s.team, s.id, t.id AS other, t.budget, ROW_NUMBER() OVER (PARTITION BY s.team ORDER BY t.budget DESC, s.id) AS place
  FROM staff AS s FULL JOIN teams AS t ON s.team = t.team) WHERE place <= 2;
