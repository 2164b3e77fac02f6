"""Everything from one message of each user, after Zheng, Mou & Wang (ICML 2017)."""
