# SPDX-License-Identifier: Apache-2.0
"""Writes detection_losses.json next to this file: the losses of the detection recipe from their formulas, in float64.

Straight from the papers (VarifocalNet, DEIM, GIoU, D-FINE), one number at a time, sharing no code with the recipe.
Inputs are functions of an element's index; detection_losses_test.cpp computes the same ones.
Run with the Python whose torch is the reference (Debian 12: /usr/bin/python3).
"""
import json
import math
import pathlib

import torch

REG_MAX, REG_SCALE, UP = 32, 4.0, 0.5
BINS = REG_MAX + 1
M, C = 7, 5


def fractions(count, salt):
    """`count` numbers in [0, 1) with 24 bits: a multiplicative hash of index and salt."""
    index = torch.arange(count, dtype=torch.int64)
    hashed = (index * 2654435761 + salt * 40503 + 12345) & 0xFFFFFFFF
    hashed = ((hashed ^ (hashed >> 15)) * 2246822519) & 0xFFFFFFFF
    return (hashed >> 8).to(torch.float64) / (1 << 24)


def boxes(salt):
    f = fractions(M * 4, salt).reshape(M, 4)
    return torch.cat([0.3 + 0.3 * f[:, :2], 0.05 + 0.4 * f[:, 2:]], 1)


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def cross_entropy(logit, target):
    """Cross entropy of a probability given as a logit, safe at both ends."""
    return max(logit, 0) - logit * target + math.log1p(math.exp(-abs(logit)))


def class_losses(kind, alpha, gamma):
    logits = (fractions(M * C, 1).reshape(M, C) - 0.5) * 6
    iou = fractions(M, 2)
    labels = (fractions(M, 3) * C).long()
    out = []
    for i in range(M):
        for c in range(C):
            x = logits[i, c].item()
            p = sigmoid(x)
            matched = i != 2 and c == labels[i]  # the third has no object
            q = iou[i].item() if matched else 0.0
            if kind == "vfl":
                weight = q if matched else alpha * p**gamma
                target = q
            else:
                weight = 1.0 if matched else p**gamma
                target = q**gamma
            out.append(weight * cross_entropy(x, target))
    return out


def corners(box):
    x, y, w, h = (v.item() for v in box)
    return x - w / 2, y - h / 2, x + w / 2, y + h / 2


def giou(a, b):
    a, b = corners(a), corners(b)
    width = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    height = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    common = width * height
    joined = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - common
    around = (max(a[2], b[2]) - min(a[0], b[0])) * (max(a[3], b[3]) - min(a[1], b[1]))
    return common / joined - (around - joined) / around, common / joined


def weighting():
    u = abs(UP) * abs(REG_SCALE)
    s = (u + 1) ** (2 / (REG_MAX - 2))
    half = REG_MAX // 2 - 1
    return [-2 * u] + [-(s**i) + 1 for i in range(half, 0, -1)] + [0.0] + [s**i - 1 for i in range(1, half + 1)] + [2 * u]


def decoded(ref, logits, bins):
    """The box given by a reference box and the logits of its four sides."""
    d = [(torch.softmax(side, 0) * torch.tensor(bins, dtype=torch.float64)).sum().item() for side in logits.reshape(4, BINS)]
    x, y, w, h = (v.item() for v in ref)
    left, top = x - (0.5 * REG_SCALE + d[0]) * w / REG_SCALE, y - (0.5 * REG_SCALE + d[1]) * h / REG_SCALE
    right, bottom = x + (0.5 * REG_SCALE + d[2]) * w / REG_SCALE, y + (0.5 * REG_SCALE + d[3]) * h / REG_SCALE
    return [(left + right) / 2, (top + bottom) / 2, right - left, bottom - top]


def distances(ref, box):
    """The distances of the four sides of `box` from `ref`, in units of the bins."""
    x, y, w, h = (v.item() for v in ref)
    left, top, right, bottom = corners(box)
    return [(x - left) / (w / REG_SCALE) - 0.5 * REG_SCALE, (y - top) / (h / REG_SCALE) - 0.5 * REG_SCALE,
            (right - x) / (w / REG_SCALE) - 0.5 * REG_SCALE, (bottom - y) / (h / REG_SCALE) - 0.5 * REG_SCALE]


def fgl(refs, targets, logits, bins):
    out = []
    for i in range(M):
        total = 0.0
        for side, d in enumerate(distances(refs[i], targets[i])):
            logs = torch.log_softmax(logits[i].reshape(4, BINS)[side], 0)
            if d <= bins[0]:
                left, right_share = 0, 0.0
            elif d >= bins[-1]:
                left, right_share = BINS - 2, 1.0
            else:
                left = max(n for n in range(BINS - 1) if bins[n] <= d)
                right_share = (d - bins[left]) / (bins[left + 1] - bins[left])
            total -= (1 - right_share) * logs[left].item() + right_share * logs[left + 1].item()
        out.append(total * giou(refs[i], targets[i])[1])
    return out


def ddf(logits, teacher, t):
    out = []
    for i in range(M):
        total = 0.0
        for side in range(4):
            p = torch.softmax(teacher[i].reshape(4, BINS)[side] / t, 0)
            q = torch.softmax(logits[i].reshape(4, BINS)[side] / t, 0)
            total += sum(a * math.log(a / b) for a, b in zip(p.tolist(), q.tolist())) * t * t
        out.append(total / 4)
    return out


a, b = boxes(10), boxes(11)
b[5, 2] = 0.9  # a side beyond the last bin
logits = (fractions(M * 4 * BINS, 20).reshape(M, 4 * BINS) - 0.5) * 8
teacher = (fractions(M * 4 * BINS, 21).reshape(M, 4 * BINS) - 0.5) * 8
bins = weighting()
golden = {
    "vfl": class_losses("vfl", 0.75, 2.0),
    "mal": class_losses("mal", 0.75, 1.5),
    "bbox": [sum(abs(x - y).item() for x, y in zip(a[i], b[i])) for i in range(M)],
    "giou": [giou(a[i], b[i])[0] for i in range(M)],
    "iou": [giou(a[i], b[i])[1] for i in range(M)],
    "weighting": bins,
    "decoded": [v for i in range(M) for v in decoded(a[i], logits[i], bins)],
    "fgl": fgl(a, b, logits, bins),
    "ddf": ddf(logits, teacher, 5.0),
}
path = pathlib.Path(__file__).with_name("detection_losses.json")
path.write_text(json.dumps(golden, indent=1) + "\n")
print({name: round(sum(values), 6) for name, values in golden.items()})
