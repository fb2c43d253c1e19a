"""Algorithms from papers, one file each, for rows in memory. The top of a file states problem, round and paper."""
