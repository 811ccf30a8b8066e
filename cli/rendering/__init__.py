"""How numbers, names, tables and bars look in a terminal. Knows no recording; computes nothing about one."""
