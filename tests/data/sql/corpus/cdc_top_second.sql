SELECT team, id, pay FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY team ORDER BY pay DESC, id) AS rn FROM staff) WHERE rn = 2;
