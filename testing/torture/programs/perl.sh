exec perl work.pl
