SELECT id, JSON_VALUE(doc, '$.user.name' DEFAULT 'none' ON EMPTY DEFAULT 'bad' ON ERROR) AS a FROM docs;
