SELECT id FROM orders WHERE qty BETWEEN 2 AND 5 AND shop IN ('s1', 's2') AND customer NOT IN ('eve');
