"""Old name of `losses.codes`, to be removed."""

from pymcboost.losses.codes import *  # noqa: F403
