"""Train vector trees on the digits, save them, and score the test rows with the saved model.

Run it from the project's folder: ``python examples/digits.py``.
"""

import numpy as np

from pymcboost import VectorTreeBoostClassifier, load_model, load_svmlight

train = load_svmlight("data/digits.train.libsvm", n_features=64)
test = load_svmlight("data/digits.test.libsvm", n_features=64)
VectorTreeBoostClassifier(random_state=0).fit(train.X, train.y).save("digits-trees.mcb")

saved = load_model("digits-trees.mcb")
print(saved)
print(f"error: {100 * np.mean(saved.predict(test.X) != test.y):.1f}%")
