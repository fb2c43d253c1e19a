#!/bin/sh
# Train stumps on the digits, predict the test rows, and say what the model holds. Run it from the project's folder.
set -e
mcboost-train -q -n 500 data/digits.train.libsvm digits.mcb
mcboost-predict -q data/digits.test.libsvm digits.mcb digits.out
mcboost-info digits.mcb
