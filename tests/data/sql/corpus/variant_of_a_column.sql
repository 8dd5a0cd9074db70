-- quick
SELECT id, JSON_STRING(v['score']) AS score, JSON_STRING(v['tags'][1]) AS tag, v['user'] IS NULL AS is_without
FROM (SELECT id, TRY_PARSE_JSON(doc) AS v FROM docs);
