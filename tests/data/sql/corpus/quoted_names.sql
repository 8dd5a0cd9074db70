SELECT `id` AS `my id`, `day` AS `select` FROM `orders` WHERE `id` = 1;
