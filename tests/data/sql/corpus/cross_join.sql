SELECT r.rate, s.city FROM rates AS r CROSS JOIN shops AS s;
