SELECT shop, STDDEV_POP(price) AS a, STDDEV_SAMP(price) AS b, VAR_POP(price) AS c, VAR_SAMP(price) AS d, STDDEV(price) AS e FROM orders GROUP BY shop;
