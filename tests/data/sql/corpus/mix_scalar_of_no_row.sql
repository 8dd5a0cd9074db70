-- modes: streaming
SELECT id, (SELECT MAX(t.budget) FROM teams AS t WHERE t.team = s.team) AS most,
  pay - (SELECT AVG(budget) FROM teams WHERE budget > 1000) AS gap FROM staff AS s;
