"""The rows of a training and the forms in which learners read them; LIBSVM text."""
