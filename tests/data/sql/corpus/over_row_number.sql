SELECT id, ROW_NUMBER() OVER (PARTITION BY shop ORDER BY amount DESC, id) AS place FROM orders;
