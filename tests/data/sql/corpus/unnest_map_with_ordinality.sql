SELECT id, COUNT(k) AS n, MAX(spot) AS m FROM tags LEFT JOIN UNNEST(attrs) WITH ORDINALITY AS t (k, v, spot) ON TRUE GROUP BY id;
