SELECT shop FROM cities WHERE people > 3;
