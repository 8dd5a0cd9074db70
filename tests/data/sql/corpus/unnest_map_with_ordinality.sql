SELECT id, k, v FROM tags LEFT JOIN UNNEST(attrs) WITH ORDINALITY AS t (k, v, spot) ON TRUE WHERE spot = 1;
