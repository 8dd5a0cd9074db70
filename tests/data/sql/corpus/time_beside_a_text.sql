SELECT id FROM orders WHERE `day` = '2026-01-02' OR ts < '2026-01-01 00:00:10';
