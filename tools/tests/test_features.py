"""tools/features.py on images whose features are known."""

import features
import numpy as np
import pytest


def bar(slope, n=1):
    """A soft vertical bar through the middle whose rows are shifted by slope per row."""
    y, x = np.mgrid[:28, :28]
    image = np.exp(-(((x - 14) - slope * (y - 14)) ** 2) / 4) * (abs(y - 14) <= 8)
    return np.repeat(image[None].astype(np.float32), n, axis=0)


def mixed_moment(image):
    y, x = np.mgrid[:28, :28]
    total = image.sum()
    cx, cy = (image * x).sum() / total, (image * y).sum() / total
    return (image * (x - cx) * (y - cy)).sum() / total, cx, cy


@pytest.mark.parametrize("slope", [-0.7, -0.2, 0, 0.5, 0.9])
def test_deskew_sets_a_slanted_bar_upright_in_the_middle(slope):
    skewed, cx, cy = mixed_moment(bar(slope)[0])
    assert abs(skewed) > 10 * abs(slope) and abs(cx - 14) < 0.05 and abs(cy - 14) < 0.05
    upright = features.deskew(bar(slope))[0]
    moment, cx, cy = mixed_moment(upright)
    assert abs(moment) < 0.05 and abs(cx - 13.5) < 0.02 and abs(cy - 13.5) < 1e-3
    y, x = np.mgrid[:28, :28]
    expected = np.exp(-((x - 13.5) ** 2) / 4) * np.clip(9 - abs(y - 13.5), 0, 1)
    assert abs(upright - expected).max() < 0.15


def test_deskew_undoes_a_shift():
    """Whole pixels: the same image; a third of a pixel: the same centre and slant."""
    image = bar(0.4)
    moved = features.deskew(np.roll(image, (3, -2), axis=(1, 2)))
    np.testing.assert_allclose(moved, features.deskew(image), atol=1e-3)
    third = features.slide(image, np.full((1, 28), 1 / 3))
    moment, cx, cy = mixed_moment(features.deskew(third)[0])
    assert abs(moment) < 0.05 and abs(cx - 13.5) < 0.02 and abs(cy - 13.5) < 1e-3


def test_slide():
    images = np.zeros((2, 28, 28), np.float32)
    images[:, 5, 10] = 1
    shift = np.zeros((2, 28))
    shift[0, 5] = 2.25
    shift[1, 5] = 1000
    moved = features.slide(images, shift)
    expected = np.zeros((2, 28, 28))
    expected[0, 5, 7:9] = 0.25, 0.75
    np.testing.assert_allclose(moved, expected, atol=1e-6)


def test_deskew_of_degenerate_images():
    images = np.zeros((4, 28, 28), np.float32)
    images[1, 3, 5] = 1
    images[2, 9, :] = 1
    images[3, :, 0] = images[3, :, 27] = 1
    expected = np.zeros((4, 28, 28), np.float32)
    expected[1, 13:15, 13:15] = 0.25
    expected[2, 13:15] = 0.5
    expected[3] = images[3]
    np.testing.assert_allclose(features.deskew(images), expected, atol=1e-4)


def test_votes_of_a_ramp():
    """A plane has one gradient everywhere; its direction is halfway, or at a centre, or at the wrap-around."""
    y, x = np.mgrid[:28, :28].astype(np.float32)
    cases = [(0, {0: 1}), (10, {0: 0.5, 1: 0.5}), (80, {4: 1}), (90, {4: 0.5, 5: 0.5}), (165, {8: 0.75, 0: 0.25}),
             (180, {0: 1}), (200, {1: 1}), (-45, {6: 0.25, 7: 0.75})]  # fmt: skip
    for degrees, expected in cases:
        angle = np.deg2rad(degrees)
        image = (0.3 * (np.cos(angle) * x + np.sin(angle) * y)).astype(np.float32)[None]
        inner = features.votes(image)[0, :, 1:-1, 1:-1]
        for orientation in range(9):
            assert abs(inner[orientation] - 0.3 * expected.get(orientation, 0)).max() < 1e-4, (
                degrees,
                orientation,
            )


def test_shape_and_type():
    X = features.features(bar(0.3, 3).reshape(3, -1) * 255, batch=2)
    assert X.shape == (3, 2178) and X.dtype == np.float32
    np.testing.assert_allclose(X[1:], X[[0, 0]], atol=1e-5)
    assert X.min() >= 0 and X.max() <= 1
    assert not features.features(np.zeros((1, 784))).any()


def test_blocks():
    """Each block is a tent over its own pixels, and the blocks of a corner pixel are the last of each level."""
    weights = features.block_weights()
    assert weights.shape == (784, 242) and weights.dtype == np.float32
    assert (weights > 0).sum(axis=0).tolist() == [16] * 169 + [49] * 64 + [196] * 9
    np.testing.assert_allclose(weights.sum(axis=0), [16] * 169 + [49] * 64 + [196] * 9, rtol=1e-5)
    corner = np.zeros((28, 28), np.float32)
    corner[27, 27] = 1
    assert np.flatnonzero(corner.ravel() @ weights).tolist() == [168, 232, 241]
    small = weights[:, 14].reshape(28, 28)
    np.testing.assert_allclose(small[2:6, 2:6], np.outer([1, 3, 3, 1], [1, 3, 3, 1]) / 4, rtol=1e-5)


def test_weights_of_a_pixel_add_up_to_4_in_overlapping_blocks():
    """Blocks of one size overlap by half, so a pixel away from the border is in four of them."""
    weights = features.block_weights()
    blocks_of_4, blocks_of_14 = slice(0, 13**2), slice(13**2 + 8**2, None)
    for blocks, border in ((blocks_of_4, 2), (blocks_of_14, 7)):
        total = weights[:, blocks].sum(axis=1).reshape(28, 28)
        inner = total[border:-border, border:-border]
        np.testing.assert_allclose(inner, 4, rtol=1e-5)


def test_half_turn_turns_the_blocks_only():
    """Unsigned orientations do not see a half turn, so each level's blocks appear in reverse order."""
    image = np.random.default_rng(0).random((1, 28, 28), dtype=np.float32)
    turned = np.ascontiguousarray(image[:, ::-1, ::-1])
    plain, turned = (features.hog(part).reshape(242, 9) for part in (image, turned))
    for level in (slice(0, 169), slice(169, 233), slice(233, 242)):
        np.testing.assert_allclose(turned[level][::-1], plain[level], atol=1e-4)


def test_quarter_turn_swaps_orientations():
    """Turning by 90 degrees moves angle a to a + 90, four and a half orientations: seen with a ramp of 20 degrees."""
    y, x = np.mgrid[:28, :28].astype(np.float32)
    image = (np.cos(np.deg2rad(20)) * x + np.sin(np.deg2rad(20)) * y)[None]
    v = features.votes(image).sum(axis=(0, 2, 3))
    turned = features.votes(np.ascontiguousarray(np.rot90(image, -1, axes=(1, 2)))).sum(
        axis=(0, 2, 3)
    )
    assert v.argmax() == 1 and set(np.argsort(turned)[-2:].tolist()) == {5, 6}


def test_l2_hys():
    v = np.zeros((1, 9), np.float32)
    v[0, 0] = 1000
    assert (
        abs(features.l2_hys(v)[0, 0] - features.CLIP / np.hypot(features.CLIP, features.EPSILON))
        < 1e-5
    )
    flat = features.l2_hys(np.full((1, 9), 1e4, np.float32))
    assert np.ptp(flat) < 1e-6
