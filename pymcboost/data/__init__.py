"""The rows of a training and the forms in which learners read them; LIBSVM text."""

from pymcboost.data.chunks import Chunks as Chunks
