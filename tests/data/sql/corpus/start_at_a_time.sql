SELECT order_id FROM payments /*+ OPTIONS('scan.startup.mode' = 'timestamp', 'scan.startup.timestamp-millis' = '1767225602000') */;
