SELECT id, JSON_EXISTS(doc, '$.user.name') AS a, JSON_EXISTS(doc, '$.tags[0]') AS b, doc IS JSON AS c FROM docs;
