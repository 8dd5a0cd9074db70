-- modes: streaming
SELECT a.id, b.id AS bid, c.shop, COALESCE(a.team, b.team) AS t FROM staff AS a FULL JOIN teams AS b ON a.team = b.team FULL JOIN cities AS c ON COALESCE(a.id, b.id) = c.people;
