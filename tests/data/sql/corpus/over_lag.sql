-- quick in batch
SELECT id, LAG(qty) OVER (PARTITION BY shop ORDER BY ts) AS before_, LEAD(qty, 1) OVER (PARTITION BY shop ORDER BY ts) AS next_ FROM orders;
