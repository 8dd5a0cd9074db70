-- differs: LISTAGG has the values in another order, as in docs/sql.md
SELECT shop, LISTAGG(name) AS l FROM goods GROUP BY shop;
