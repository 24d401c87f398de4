# SPDX-License-Identifier: Apache-2.0
"""Writes segmentation.json and segmentation.safetensors next to this file: the segmentation networks and their losses, computed
from their formulas in float64.

The networks are functions of a dict of weights, sharing no code with the recipe; names are the recipe's. Weights,
images and maps are functions of a name and an element's index; segmentation_golden_test.cpp computes the same. The file holds
the norm of each gradient and up to 1,000 values, evenly spaced.
Run with the Python whose torch is the reference (Debian 12: /usr/bin/python3).
"""
import json
import math
import pathlib
import struct

import torch
import torch.nn.functional as F

CLASSES, BATCH, SIZE, SAMPLES = 21, 3, 65, 1000


def salt_of(name):
    """FNV-1a of 32 bits."""
    value = 2166136261
    for byte in name.encode():
        value = ((value ^ byte) * 16777619) & 0xFFFFFFFF
    return value


def fractions(name, count):
    """`count` numbers in [0, 1) with 24 bits: a multiplicative hash of index and name."""
    index = torch.arange(count, dtype=torch.int64)
    hashed = (index * 2654435761 + salt_of(name) * 40503 + 12345) & 0xFFFFFFFF
    hashed = ((hashed ^ (hashed >> 15)) * 2246822519) & 0xFFFFFFFF
    return (hashed >> 8).to(torch.float64) / (1 << 24)


class Weights:
    """Creates a weight on first use, so a network has just the weights it needs."""

    def __init__(self):
        self.made = {}

    def get(self, name, shape):
        if name not in self.made:
            f = fractions(name, math.prod(shape)).reshape(shape)
            if len(shape) == 4:  # He's deviation, uniform
                fan_in = math.prod(shape[1:])
                value = (f - 0.5) * (2 * math.sqrt(6 / fan_in))
            elif name.endswith("gamma"):
                value = f * 0 + 0.9
            elif name.endswith("weight"):  # of a batch norm
                value = 0.75 + 0.5 * f
            else:
                value = (f - 0.5) * 0.4
            self.made[name] = value.requires_grad_()
        assert tuple(self.made[name].shape) == tuple(shape), name
        return self.made[name]


class Network:
    def __init__(self, layers, stride, kind):
        self.w, self.layers, self.stride, self.kind = Weights(), layers, stride, kind

    def conv(self, name, x, out, k=1, stride=1, dilation=1):
        return F.conv2d(x, self.w.get(name + ".weight", (out, x.shape[1], k, k)), None, stride, k // 2 * dilation, dilation)

    def norm(self, name, x):
        c = x.shape[1]
        return F.batch_norm(x, None, None, self.w.get(name + ".weight", (c,)), self.w.get(name + ".bias", (c,)),
                            training=True, eps=1e-5)

    def block(self, name, x, width, stride, dilation):
        if self.layers >= 50:  # the stride is in the first 1x1
            out = 4 * width
            y = F.relu(self.norm(name + ".bn1", self.conv(name + ".conv1", x, width, 1, stride)))
            y = F.relu(self.norm(name + ".bn2", self.conv(name + ".conv2", y, width, 3, 1, dilation)))
            y = self.norm(name + ".bn3", self.conv(name + ".conv3", y, out))
        else:  # only the second convolution is dilated
            out = width
            y = F.relu(self.norm(name + ".bn1", self.conv(name + ".conv1", x, width, 3, stride)))
            y = self.norm(name + ".bn2", self.conv(name + ".conv2", y, out, 3, 1, dilation))
        if stride != 1 or x.shape[1] != out:
            x = self.norm(name + ".downsample.1", self.conv(name + ".downsample.0", x, out, 1, stride))
        return F.relu(x + y)

    def backbone(self, x):
        blocks = {18: (2, 2, 2, 2), 50: (3, 4, 6, 3)}[self.layers]
        strides, dilations = {8: ((1, 2, 1, 1), (1, 1, 2, 4)), 16: ((1, 2, 2, 1), (1, 1, 1, 2))}[self.stride]
        x = F.relu(self.norm("bn1", self.conv("conv1", x, 64, 7, 2)))
        x = F.max_pool2d(x, 3, 2, 1, ceil_mode=True)
        for s in range(4):
            for b in range(blocks[s]):
                grid = 2**b if s == 3 else 1
                x = self.block(f"layer{s + 1}.{b}", x, 64 * 2**s, strides[s] if b == 0 else 1, dilations[s] * grid)
            if s == 0:
                low = x
        return low, x

    def conv_norm_relu(self, name, x, out, k=1, dilation=1):
        return F.relu(self.norm(name + ".bn", self.conv(name + ".conv", x, out, k, 1, dilation)))

    def pyramid(self, x, width, rates):
        parts = [self.conv_norm_relu("aspp.pyramid.branch0", x, width)]
        for i, rate in enumerate(rates):
            parts.append(self.conv_norm_relu(f"aspp.pyramid.branch{i + 1}", x, width, 3, rate))
        mean = self.conv_norm_relu("aspp.pyramid.pooled", F.adaptive_avg_pool2d(x, 1), width)
        parts.append(F.interpolate(mean, size=x.shape[2:], mode="bilinear", align_corners=True))
        return torch.cat(parts, 1)

    def class_width_head(self, x):
        return self.norm("aspp.bn", self.conv("aspp.conv", self.pyramid(x, CLASSES, (12, 18, 24)), CLASSES))

    def decoder_head(self, low, high):
        x = self.conv_norm_relu("aspp.project", self.pyramid(high, 256, (6, 12, 18)), 256)
        x = F.interpolate(x, size=low.shape[2:], mode="bilinear", align_corners=True)
        x = torch.cat([x, self.conv_norm_relu("aspp.low", low, 48)], 1)
        x = self.conv_norm_relu("aspp.second", self.conv_norm_relu("aspp.first", x, 256, 3), 256, 3)
        return self.conv("aspp.classifier", x, CLASSES) + self.w.get("aspp.classifier.bias", (CLASSES,)).reshape(1, -1, 1, 1)

    def lorm(self, x, labels):
        """The loss: every foreground feature against its attention mean."""
        c, (h, w) = x.shape[1], x.shape[2:]
        known = torch.where(labels == 255, torch.zeros_like(labels), labels).to(torch.float64).unsqueeze(1)
        mask = F.interpolate(known, size=(h, w), mode="bilinear", align_corners=True).flatten(1) > 0
        q, k = (F.conv2d(x, self.w.get(f"lorm.{n}.weight", (c, c, 1, 1)), self.w.get(f"lorm.{n}.bias", (c,)))
                .flatten(2).transpose(1, 2) for n in ("query", "key"))
        features = x.flatten(2).transpose(1, 2)
        gamma = self.w.get("lorm.gamma", (1,))
        rectified = []
        for b in range(x.shape[0]):
            cosine = F.cosine_similarity(q[b].unsqueeze(1), k[b].unsqueeze(0), dim=2)
            attention = torch.softmax(cosine, 1) * mask[b].unsqueeze(1)
            rectified.append(gamma * (attention @ features[b]))
        square = (features - torch.stack(rectified))**2
        return square.sum() / torch.count_nonzero(square), mask.to(torch.float64).mean().item()

    def forward(self, images, labels):
        low, high = self.backbone(images)
        logits = self.decoder_head(low, high) if self.kind.startswith("deeplabv3p") else self.class_width_head(high)
        return logits, self.lorm(high, labels) if self.kind.endswith("lorm") else None


def maps():
    """Labels, pseudo-labels, both distance maps: uint8 [B, H, W] each."""
    shape, count = (BATCH, SIZE, SIZE), BATCH * SIZE * SIZE
    labels = torch.floor(fractions("labels", count) * 70).reshape(shape)
    labels[labels >= CLASSES] = 255
    cells = torch.floor(fractions("pseudo", BATCH * 81) * 40).reshape(BATCH, 9, 9)
    cells[cells > 30] = 255
    cells[(cells >= CLASSES) & (cells < 255)] = 0
    pseudo = cells.repeat_interleave(8, 1).repeat_interleave(8, 2)[:, :SIZE, :SIZE]
    distances = [torch.floor(fractions(n, count) * 256).reshape(shape) for n in ("scribble", "class")]
    return [m.to(torch.int64) for m in (labels, pseudo, *distances)]


def losses(logits, lorm, smoothing):
    labels, pseudo, scribble_map, class_map = maps()
    large = F.interpolate(logits, size=(SIZE, SIZE), mode="bilinear", align_corners=True)
    logs = torch.log_softmax(large, 1)
    negative = (logs.exp() * logs).sum(1)

    def entropy(distances):
        each = distances / 255.0 * negative
        return -each.sum() / torch.count_nonzero(each)

    terms = {
        "segmentation": F.cross_entropy(large, labels, ignore_index=255),
        "pseudo": F.cross_entropy(large, pseudo, ignore_index=255, label_smoothing=smoothing),
        "distance_scribble": entropy(scribble_map),
        "distance_class": entropy(class_map),
    }
    if lorm is not None:
        terms["lorm"] = lorm[0]
    return terms


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        raw = tensor.detach().to(torch.float32).contiguous().numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def main():
    images = ((fractions("images", BATCH * 3 * SIZE * SIZE) - 0.5) * 4).reshape(BATCH, 3, SIZE, SIZE)
    tensors, golden = {}, {}
    cases = [(50, 8, "aspp_lorm"), (18, 16, "aspp_lorm"), (18, 8, "deeplabv3p_lorm"), (50, 16, "deeplabv3p")]
    for layers, stride, kind in cases:
        net = Network(layers, stride, kind)
        logits, lorm = net.forward(images, maps()[1])
        terms = losses(logits, lorm, 0.1)
        case = f"{kind}_{layers}_{stride}"
        tensors[case + ".logits"] = logits
        golden[case] = {"parameters": sum(v.numel() for v in net.w.made.values()),
                        "terms": {name: term.item() for name, term in terms.items()}}
        print(case, golden[case], "foreground", lorm and lorm[1], "deviation", logits.std().item())
        if (layers, stride, kind) != cases[0]:
            continue
        sum(terms.values()).backward()
        golden[case]["norms"] = {}
        for name, value in net.w.made.items():
            flat = value.grad.flatten()
            taken = torch.arange(min(SAMPLES, flat.numel()), dtype=torch.int64) * flat.numel() // min(SAMPLES, flat.numel())
            tensors[f"{case}.{name}"] = flat[taken]
            golden[case]["norms"][name] = flat.norm().item()
    folder = pathlib.Path(__file__).parent
    write_safetensors(folder / "segmentation.safetensors", tensors)
    (folder / "segmentation.json").write_text(json.dumps(golden, indent=1) + "\n")


main()
