SELECT id, JSON_QUERY(doc, '$.user') AS a, JSON_QUERY(doc, '$.tags') AS b, JSON_QUERY(doc, '$.ok') AS c FROM docs;
