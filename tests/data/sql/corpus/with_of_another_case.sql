-- kinder: names of WITH are found without their case
-- quick in batch
WITH Big AS (SELECT * FROM orders WHERE amount > 10) SELECT id FROM big;
