SELECT STDDEV_POP(price) AS a, STDDEV_SAMP(price) AS b, VAR_POP(qty) AS c, VAR_SAMP(qty) AS d FROM orders;
