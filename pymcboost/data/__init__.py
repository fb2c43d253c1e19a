"""Training rows, the layouts in which learners read them, and LIBSVM text files."""
