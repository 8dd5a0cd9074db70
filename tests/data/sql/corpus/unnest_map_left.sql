SELECT id, k, v FROM tags LEFT JOIN UNNEST(attrs) AS t (k, v) ON TRUE;
