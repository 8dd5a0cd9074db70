SELECT nothing FROM orders;
