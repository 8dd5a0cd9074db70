SELECT id, -qty AS less FROM orders WHERE qty IS NOT NULL
QUALIFY ROW_NUMBER() OVER (PARTITION BY shop ORDER BY less, id) = 1 AND less < -1;
