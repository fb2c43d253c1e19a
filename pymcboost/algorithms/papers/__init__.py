"""Algorithms of papers, one file each, on rows in memory: problem, round and paper on top, then the round itself."""
