SELECT o.id, v.id AS other FROM orders AS o JOIN orders AS v ON o.`day` + INTERVAL '1' MONTH = v.`day` + INTERVAL '1' MONTH AND o.id < v.id AND o.ts + INTERVAL '2' MONTH > v.ts WHERE o.id > 11;
