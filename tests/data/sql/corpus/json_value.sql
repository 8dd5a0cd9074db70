SELECT id, JSON_VALUE(doc, '$.user.name') AS a, JSON_VALUE(doc, '$.score') AS b, JSON_VALUE(doc, '$.ok') AS c,
  JSON_VALUE(doc, '$.tags[0]') AS d, JSON_VALUE(doc, '$.user.age' RETURNING INT) AS e FROM docs;
