-- modes: streaming
SELECT op, name, qty FROM TO_CHANGELOG(input => (SELECT id, name, qty FROM goods WHERE qty > 4));
