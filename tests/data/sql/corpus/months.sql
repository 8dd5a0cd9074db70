-- quick in batch
SELECT id, TIMESTAMPDIFF(MONTH, TIMESTAMP '2025-11-30 10:00:00', ts) AS m, QUARTER(ts) AS q, WEEK(ts) AS w,
  DAYOFYEAR(`day`) AS y, TIMESTAMPADD(MONTH, -1, ts) AS before_ FROM orders;
