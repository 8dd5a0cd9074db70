SELECT CAST(`day` AS STRING) AS d, DATE_FORMAT(ts, 'yyyyMMdd') AS p, TO_DATE(DATE_FORMAT(ts, 'yyyy-MM-dd')) AS back FROM orders;
