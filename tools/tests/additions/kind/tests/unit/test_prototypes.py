"""Prototypes against a slow scorer, and damaged files of them."""

import pytest
from format.tampering import parse
from reference.prototypes import prototype_scores, random_prototypes
from reference.scoring import random_rows

from pymcboost import Model, ModelFormatError


@pytest.mark.parametrize(("d", "K"), [(1, 2), (6, 3), (40, 11)])
def test_scores(d, K, tmp_path):
    ensemble = random_prototypes(d, K)
    X = random_rows(20, d)
    Model.from_ensemble(ensemble, range(K), link="softmax").save(tmp_path / "m.mcb")
    model = Model.from_bytes((tmp_path / "m.mcb").read_bytes())
    assert model.raw_scores(X).tobytes() == prototype_scores(ensemble, X).tobytes()
    assert model.raw_scores(X[:1]).tobytes() == model.raw_scores(X)[:1].tobytes()


@pytest.mark.parametrize(
    "change", [lambda values: values[:-1], lambda values: [*values[:-1], float("inf")]]
)
def test_damaged_files(change):
    file = parse(Model.from_ensemble(random_prototypes(6, 3), range(3)).to_bytes())
    file.set_items(b"PROT", "f", change(list(file.items(b"PROT", "f"))))
    with pytest.raises(ModelFormatError, match="PROT"):
        Model.from_bytes(file.to_bytes())
