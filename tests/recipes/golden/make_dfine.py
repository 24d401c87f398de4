# SPDX-License-Identifier: Apache-2.0
"""Writes dfine.json and dfine.safetensors: D-FINE's network, matching, losses and gradients, computed from their formulas in
float64.

The network is functions of a dict of weights, sharing no code with the recipe; names are those of the published
state dict. Weights, images and objects are functions of a name and an element's index; detection_dfine_golden_test.cpp
computes the same. The files hold the norm of each tensor and some values, evenly spaced.

    make_dfine.py [FOLDER [SAMPLES]]     # this folder and 12; DFINE_GOLDEN=FOLDER makes the test read that folder's files
    make_dfine.py --weights FILE.pth     # size S in the layout of D-FINE's checkpoints
    make_dfine.py --names FILE.pth       # checks that the names and shapes of its "model" are size S's

Run with the Python whose torch is the reference (Debian 12: /usr/bin/python3).
"""
import json
import math
import pathlib
import struct
import sys

import torch
import torch.nn.functional as F

SAMPLES = 12
BATCH, OBJECTS, CLASSES, GROUPS = 2, 3, 80, 4

STAGES = {  # stem; middles, outs, blocks, layers of a block
    "B0": ((16, 16), (16, 32, 64, 128), (64, 256, 512, 1024), (1, 1, 2, 1), 3),
    "B2": ((24, 32), (32, 64, 128, 256), (96, 384, 768, 1536), (1, 1, 3, 1), 4),
}
BASE = dict(backbone="B0", lab=True, levels=3, enc=256, enc_ff=1024, expansion=0.5, depth=0.34, hid=256, ff=1024, layers=3,
            eval_layer=2, points=(3, 6, 3), act="relu", mlp="relu", reg_scale=4.0, frozen=False, size=160, queries=300)
CASES = {
    "s": BASE,
    "n": BASE | dict(levels=2, enc=128, enc_ff=512, expansion=0.34, depth=0.5, hid=128, ff=512, points=(6, 6), act="silu",
                     mlp="silu", size=256),
    "m": BASE | dict(backbone="B2", expansion=1.0, depth=0.67, layers=4, eval_layer=3),
    "odd": BASE | dict(enc=96, enc_ff=64, hid=64, ff=80, layers=4, eval_layer=2, reg_scale=8.0, lab=False, frozen=True,
                       queries=100, depth=1.0),
}
HEADS, REG_MAX, UP = 8, 32, 0.5


def salt_of(name):
    """FNV-1a of 32 bits."""
    value = 2166136261
    for byte in name.encode():
        value = ((value ^ byte) * 16777619) & 0xFFFFFFFF
    return value


def fractions(name, *shape):
    """Numbers in [0, 1) with 24 bits: a multiplicative hash of index and name."""
    index = torch.arange(math.prod(shape), dtype=torch.int64)
    hashed = (index * 2654435761 + salt_of(name) * 40503 + 12345) & 0xFFFFFFFF
    hashed = ((hashed ^ (hashed >> 15)) * 2246822519) & 0xFFFFFFFF
    return ((hashed >> 8).to(torch.float64) / (1 << 24)).reshape(shape)


class State:
    """Creates an entry on first use, so a network has just the entries it needs."""

    def __init__(self):
        self.learned, self.kept = {}, {}

    def get(self, name, shape, learn=True):
        made = self.learned if learn else self.kept
        if name not in made:
            f = fractions(name, *shape)
            if len(shape) == 4:  # He's deviation, uniform
                value = (f - 0.5) * (2 * math.sqrt(6 / math.prod(shape[1:])))
            elif len(shape) == 2:
                value = (f - 0.5) * (2 * math.sqrt(3 / shape[1]))
            elif name.endswith(("running_var", "weight", "scale")):
                value = 0.75 + 0.5 * f
            else:
                value = (f - 0.5) * 0.4
            made[name] = value.requires_grad_() if learn else value
        assert tuple(made[name].shape) == tuple(shape), name
        return made[name]


def sampled_attention(value, where, share, sizes, points):
    """Shapes: value [B,T,H,d], where [B,Q,H,P,2] in 0..1, share [B,Q,H,P]."""
    b, _, h, d = value.shape
    q = where.shape[1]
    total, row, first = 0, 0, 0
    for (hh, ww), n in zip(sizes, points):
        plane = value[:, row:row + hh * ww].permute(0, 2, 3, 1).reshape(b * h, d, hh, ww)
        grid = where[:, :, :, first:first + n].permute(0, 2, 1, 3, 4).reshape(b * h, q, n, 2) * 2 - 1
        seen = F.grid_sample(plane, grid, align_corners=False).reshape(b, h, d, q, n)
        total = total + torch.einsum("bhdqn,bqhn->bqhd", seen, share[:, :, :, first:first + n])
        row, first = row + hh * ww, first + n
    return total.reshape(b, q, h * d)


def logit(p):
    p = p.clamp(0, 1)
    return torch.log(p.clamp(min=1e-5)) - torch.log((1 - p).clamp(min=1e-5))


def bins(reg_scale):
    u = abs(UP) * abs(reg_scale)
    s = (u + 1) ** (2 / (REG_MAX - 2))
    half = REG_MAX // 2 - 1
    right = [s ** i - 1 for i in range(1, half + 1)]
    return torch.tensor([-2 * u] + [-v for v in reversed(right)] + [0] + right + [2 * u], dtype=torch.float64)


class Network:
    def __init__(self, case, training):
        self.c, self.w, self.training = case, State(), training

    # layers
    def norm2d(self, name, x, frozen=False):
        n = (x.shape[1],)
        if frozen or not self.training:
            mean, var = (self.w.get(f"{name}.running_{k}", n, learn=False) for k in ("mean", "var"))
            weight, bias = (self.w.get(f"{name}.{k}", n, learn=not frozen) for k in ("weight", "bias"))
        else:
            mean, var = x.mean((0, 2, 3)), x.var((0, 2, 3), unbiased=False)
            weight, bias = (self.w.get(f"{name}.{k}", n) for k in ("weight", "bias"))
        shape = (1, -1, 1, 1)
        return (x - mean.view(shape)) / torch.sqrt(var.view(shape) + 1e-5) * weight.view(shape) + bias.view(shape)

    def conv(self, name, x, out, k, stride=1, groups=1):
        return F.conv2d(x, self.w.get(name + ".weight", (out, x.shape[1] // groups, k, k)), None, stride, (k - 1) // 2, 1, groups)

    def bone(self, name, x, out, k=1, stride=1, groups=1, act=True):
        """A layer of the backbone."""
        y = self.norm2d(name + ".bn", self.conv(name + ".conv", x, out, k, stride, groups), self.c["frozen"])
        if act:
            y = F.relu(y)
            if self.c["lab"]:
                y = self.w.get(name + ".lab.scale", (1,)) * y + self.w.get(name + ".lab.bias", (1,))
        return y

    def neck(self, name, x, out, k=1, stride=1, groups=1, act=False):
        """A layer of the encoder."""
        y = self.norm2d(name + ".norm", self.conv(name + ".conv", x, out, k, stride, groups))
        return F.silu(y) if act else y

    def linear(self, name, x, out):
        return F.linear(x, self.w.get(name + ".weight", (out, x.shape[-1])), self.w.get(name + ".bias", (out,)))

    def mlp(self, name, x, *widths, act):
        for i, width in enumerate(widths):
            x = self.linear(f"{name}.layers.{i}", x, width)
            if i + 1 < len(widths):
                x = getattr(F, act)(x)
        return x

    def norm(self, name, x):
        n = (x.shape[-1],)
        mean, var = x.mean(-1, keepdim=True), x.var(-1, unbiased=False, keepdim=True)
        return (x - mean) / torch.sqrt(var + 1e-5) * self.w.get(name + ".weight", n) + self.w.get(name + ".bias", n)

    def attention(self, name, x, positions, blocked=None):
        b, n, e = x.shape
        weight, bias = self.w.get(name + ".in_proj_weight", (3 * e, e)), self.w.get(name + ".in_proj_bias", (3 * e,))
        q, k, v = (F.linear(y, weight[i * e:i * e + e], bias[i * e:i * e + e]).reshape(b, n, HEADS, -1).transpose(1, 2)
                   for i, y in enumerate((x + positions, x + positions, x)))
        scores = q @ k.transpose(2, 3) / math.sqrt(e // HEADS)
        if blocked is not None:
            scores = scores.masked_fill(blocked, float("-inf"))
        return self.linear(name + ".out_proj", (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, e), e)

    # backbone
    def backbone(self, x):
        stem, middles, outs, blocks, layers = STAGES[self.c["backbone"]]
        at = "backbone.stem.stem"
        x = F.pad(self.bone(at + "1", x, stem[0], 3, 2), (0, 1, 0, 1))
        y = self.bone(at + "2a", x, stem[0] // 2, 2)
        y = self.bone(at + "2b", F.pad(y, (0, 1, 0, 1)), stem[0], 2)
        y = torch.cat([F.max_pool2d(x, 2, 1), y], 1)
        x = self.bone(at + "4", self.bone(at + "3", y, stem[0], 3, 2), stem[1])
        found = []
        for i in range(4):
            at = f"backbone.stages.{i}"
            if i:
                x = self.bone(at + ".downsample", x, x.shape[1], 3, 2, x.shape[1], act=False)
            for j in range(blocks[i]):
                x = self.hg_block(f"{at}.blocks.{j}", x, middles[i], outs[i], layers, i > 1, j > 0)
            found.append(x)
        return found[-self.c["levels"]:]

    def hg_block(self, at, x, middle, out, layers, light, residual):
        seen = [x]
        for k in range(layers):
            name = f"{at}.layers.{k}"
            if light:
                y = self.bone(name + ".conv1", seen[-1], middle, act=False)
                seen.append(self.bone(name + ".conv2", y, middle, 5, 1, middle))
            else:
                seen.append(self.bone(name, seen[-1], middle, 3))
        y = self.bone(at + ".aggregation.0", torch.cat(seen, 1), out // 2)
        y = self.bone(at + ".aggregation.1", y, out)
        return y + x if residual else y

    # encoder
    def fusion(self, at, x):
        e = self.c["enc"]
        inner, depth = round(self.c["expansion"] * e // 2), round(3 * self.c["depth"])
        parts = list(self.neck(at + ".cv1", x, 2 * e, act=True).split(e, 1))
        for branch in ("cv2", "cv3"):
            name = f"{at}.{branch}"
            y = z = parts[-1]
            y = self.neck(name + ".0.conv1", y, inner, act=True)
            for j in range(depth):
                block = f"{name}.0.bottlenecks.{j}"
                y = F.silu(self.neck(block + ".conv1", y, inner, 3) + self.neck(block + ".conv2", y, inner))
            y = y + self.neck(name + ".0.conv2", z, inner, act=True)
            parts.append(self.neck(name + ".1", y, inner, 3, act=True))
        return self.neck(at + ".cv4", torch.cat(parts, 1), e, act=True)

    def sines(self, h, w):
        quarter = self.c["enc"] // 4
        omega = 1 / 10000 ** (torch.arange(quarter, dtype=torch.float64) / quarter)
        rows = []
        for i in range(w):  # column by column although tokens are row by row, as published
            for j in range(h):
                rows.append(torch.cat([(i * omega).sin(), (i * omega).cos(), (j * omega).sin(), (j * omega).cos()]))
        return torch.stack(rows)

    def encoder(self, scales):
        e = self.c["enc"]
        x = [self.neck(f"encoder.input_proj.{i}", s, e) for i, s in enumerate(scales)]
        b, _, h, w = x[-1].shape
        at, y = "encoder.encoder.0.layers.0", x[-1].flatten(2).transpose(1, 2)
        y = self.norm(at + ".norm1", y + self.attention(at + ".self_attn", y, self.sines(h, w)))
        inner = F.gelu(self.linear(at + ".linear1", y, self.c["enc_ff"]))
        y = self.norm(at + ".norm2", y + self.linear(at + ".linear2", inner, e))
        x[-1] = y.transpose(1, 2).reshape(b, e, h, w)
        down = [x[-1]]
        for i in range(len(x) - 1):
            down[0] = self.neck(f"encoder.lateral_convs.{i}", down[0], e)
            large = down[0].repeat_interleave(2, 2).repeat_interleave(2, 3)
            down.insert(0, self.fusion(f"encoder.fpn_blocks.{i}", torch.cat([large, x[-2 - i]], 1)))
        up = [down[0]]
        for i in range(len(x) - 1):
            at = f"encoder.downsample_convs.{i}.0"
            y = self.neck(at + ".cv2", self.neck(at + ".cv1", up[-1], e), e, 3, 2, e)
            up.append(self.fusion(f"encoder.pan_blocks.{i}", torch.cat([y, down[i + 1]], 1)))
        return up

    # decoder
    def layer(self, at, x, positions, boxes, value, sizes, blocked):
        c, (b, q, e) = self.c, x.shape
        x = self.norm(at + ".norm1", x + self.attention(at + ".self_attn", x, positions, blocked))
        total, query, cross = sum(c["points"]), x + positions, at + ".cross_attn"
        offsets = self.linear(cross + ".sampling_offsets", query, HEADS * total * 2).reshape(b, q, HEADS, total, 2)
        share = self.linear(cross + ".attention_weights", query, HEADS * total).reshape(b, q, HEADS, total).softmax(-1)
        scale = torch.tensor([1 / n for n in c["points"] for _ in range(n)], dtype=torch.float64)[:, None]
        where = boxes[:, :, None, None, :2] + offsets * scale * boxes[:, :, None, None, 2:] * 0.5
        y = sampled_attention(value.reshape(b, -1, HEADS, e // HEADS), where, share, sizes, c["points"])
        gates = self.linear(at + ".gateway.gate", torch.cat([x, y], -1), 2 * e).sigmoid()
        x = self.norm(at + ".gateway.norm", gates[..., :e] * x + gates[..., e:] * y)
        inner = getattr(F, c["act"])(self.linear(at + ".linear1", x, c["ff"]))
        return self.norm(at + ".norm3", x + self.linear(at + ".linear2", inner, e))

    def choose(self, value, sizes):
        """The encoder's best positions: contents, boxes before the sigmoid, logits."""
        anchors = []
        for level, (h, w) in enumerate(sizes):
            for y in range(h):
                for x in range(w):
                    anchors.append([(x + 0.5) / w, (y + 0.5) / h, 0.05 * 2 ** level, 0.05 * 2 ** level])
        anchors = torch.tensor(anchors, dtype=torch.float64)
        inside = ((anchors > 0.01) & (anchors < 0.99)).all(-1, keepdim=True)
        anchors = torch.where(inside, (anchors / (1 - anchors)).log(), torch.tensor(math.inf, dtype=torch.float64))
        e = value.shape[-1]
        memory = self.norm("decoder.enc_output.norm", self.linear("decoder.enc_output.proj", value * inside, e))
        logits = self.linear("decoder.enc_score_head", memory, CLASSES)
        best = logits.amax(-1).topk(self.c["queries"], -1).indices
        take = lambda of: torch.stack([image[rows] for image, rows in zip(of, best)])
        content = take(memory)
        unact = self.mlp("decoder.enc_bbox_head", content, e, e, 4, act=self.c["mlp"]) + anchors[best]
        return content, unact, take(logits)

    def decoder(self, scales, noise=None):
        c, hid = self.c, self.c["hid"]
        if c["enc"] != hid:
            scales = [self.neck(f"decoder.input_proj.{i}", s, hid) for i, s in enumerate(scales)]
        sizes = [tuple(s.shape[2:]) for s in scales]
        value = torch.cat([s.flatten(2).transpose(1, 2) for s in scales], 1)
        content, unact, enc_logits = self.choose(value, sizes)
        out = {"enc": (enc_logits, unact.sigmoid())}
        x, boxes, blocked = content.detach(), unact.sigmoid().detach(), None
        if noise is not None:
            table = self.w.get("decoder.denoising_class_embed.weight", (CLASSES + 1, hid))
            x = torch.cat([table[noise["labels"]], x], 1)
            boxes = torch.cat([logit(noise["boxes"]).sigmoid(), boxes], 1)
            blocked = noise["blocked"]
        project, layers = bins(c["reg_scale"]), []
        corners, before = 0, 0
        for i in range(c["layers"] if self.training else c["eval_layer"] + 1):
            positions = self.mlp("decoder.query_pos_head", boxes, 2 * hid, hid, act=c["mlp"]).clamp(-10, 10)
            x = self.layer(f"decoder.decoder.layers.{i}", x, positions, boxes, value, sizes, blocked)
            score = self.linear(f"decoder.dec_score_head.{i}", x, CLASSES)
            if i == 0:
                first = (self.mlp("decoder.pre_bbox_head", x, hid, hid, 4, act=c["mlp"]) + logit(boxes)).sigmoid()
                out["pre"] = (score, first)
                refs = first.detach()
            corners = corners + self.mlp(f"decoder.dec_bbox_head.{i}", x + before, hid, hid, 4 * (REG_MAX + 1), act=c["mlp"])
            shares = corners.reshape(*corners.shape[:2], 4, REG_MAX + 1).softmax(-1)
            d = (shares * project).sum(-1)
            unit = refs[..., 2:] / c["reg_scale"]
            low = refs[..., :2] - (0.5 * c["reg_scale"] + d[..., :2]) * unit
            high = refs[..., :2] + (0.5 * c["reg_scale"] + d[..., 2:]) * unit
            found = torch.cat([(low + high) / 2, high - low], -1)
            top = shares.topk(4, -1).values
            facts = torch.cat([top, top.mean(-1, keepdim=True)], -1).flatten(2)
            score = score + self.mlp(f"decoder.decoder.lqe_layers.{i}.reg_conf", facts, 64, 1, act=c["act"])
            layers.append((score, found, corners))
            boxes, before = found.detach(), x.detach()
        out["layers"], out["refs"] = layers, refs
        return out

    def forward(self, images, noise=None):
        return self.decoder(self.encoder(self.backbone(images)), noise)


# the objects to find
def objects():
    f = fractions("objects", BATCH, OBJECTS, 4)
    boxes = torch.cat([0.25 + 0.5 * f[..., :2], 0.1 + 0.3 * f[..., 2:]], -1)
    return boxes, (fractions("labels", BATCH, OBJECTS) * CLASSES).long()


def noise_of(boxes, labels, queries):
    """GROUPS groups: objects, then as many with negative boxes."""
    slots = 2 * GROUPS * OBJECTS
    moved = boxes.repeat(1, 2 * GROUPS, 1) + (fractions("noise", BATCH, slots, 4) - 0.5) * 0.08
    changed = torch.where(fractions("change", BATCH, slots) < 0.25, (fractions("other", BATCH, slots) * CLASSES).long(),
                          labels.repeat(1, 2 * GROUPS))
    group = torch.arange(slots + queries) // (2 * OBJECTS)
    group[slots:] = -1
    blocked = (group[None] >= 0) & (group[:, None] != group[None])
    positives = [g * 2 * OBJECTS + j for g in range(GROUPS) for j in range(OBJECTS)]
    return {"labels": changed, "boxes": moved, "blocked": blocked, "positives": positives}


# losses
def corners_of(boxes):
    half = boxes[..., 2:].clamp(min=0) / 2
    return torch.cat([boxes[..., :2] - half, boxes[..., :2] + half], -1)


def iou_giou(a, b):
    a, b = corners_of(a), corners_of(b)
    area = lambda c: (c[..., 2] - c[..., 0]) * (c[..., 3] - c[..., 1])
    inner = (torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])).clamp(min=0).prod(-1)
    union = area(a) + area(b) - inner
    hull = (torch.maximum(a[..., 2:], b[..., 2:]) - torch.minimum(a[..., :2], b[..., :2])).prod(-1)
    return inner / union, inner / union - (hull - union) / hull


def cheapest(cost):
    """From costs [Q][N] the pairs (query, object) with the lowest total cost, by shortest augmenting paths."""
    q, n = len(cost), len(cost[0])
    price_n, price_q, owner = [0.0] * (n + 1), [0.0] * (q + 1), [0] * (q + 1)
    for row in range(1, n + 1):
        owner[0], j, least, used, way = row, 0, [math.inf] * (q + 1), [False] * (q + 1), [0] * (q + 1)
        while True:
            used[j], i, delta, following = True, owner[j], math.inf, 0
            for k in range(1, q + 1):
                if not used[k]:
                    slack = cost[k - 1][i - 1] - price_n[i] - price_q[k]
                    if slack < least[k]:
                        least[k], way[k] = slack, j
                    if least[k] < delta:
                        delta, following = least[k], k
            for k in range(q + 1):
                if used[k]:
                    price_n[owner[k]] += delta
                    price_q[k] -= delta
                else:
                    least[k] -= delta
            j = following
            if owner[j] == 0:
                break
        while j:
            owner[j], j = owner[way[j]], way[j]
    return [(k - 1, owner[k] - 1) for k in range(1, q + 1) if owner[k]]


def match(logits, boxes, objects_, labels):
    pairs = []
    with torch.no_grad():
        for image in range(BATCH):
            p = logits[image].sigmoid()[:, labels[image]]
            focal = 0.25 * (1 - p) ** 2 * -(p + 1e-8).log() - 0.75 * p ** 2 * -(1 - p + 1e-8).log()
            mine, theirs = boxes[image][:, None], objects_[image][None]
            cost = 5 * (mine - theirs).abs().sum(-1) + 2 * focal - 2 * iou_giou(mine, theirs)[1]
            pairs.append(cheapest(cost.tolist()))
    return pairs


def unite(sets):
    united = []
    for image in range(BATCH):
        times = {}
        for pairs in sets:
            for pair in pairs[image]:
                times[pair] = times.get(pair, 0) + 1
        chosen = {}
        for (query, obj), _ in sorted(sorted(times.items()), key=lambda item: -item[1]):
            chosen.setdefault(query, obj)
        united.append(list(chosen.items()))
    return united


class Losses:
    def __init__(self, boxes, labels, reg_scale, kind):
        self.boxes, self.labels, self.kind, self.project = boxes, labels, kind, bins(reg_scale)
        self.reg_scale, self.terms, self.roots = reg_scale, {}, None

    def picked(self, pairs):
        image = torch.tensor([i for i, found in enumerate(pairs) for _ in found])
        query = torch.tensor([q for found in pairs for q, _ in found])
        obj = torch.tensor([o for found in pairs for _, o in found])
        return (image, query), self.boxes[image, obj], self.labels[image, obj]

    def classes(self, suffix, logits, boxes, pairs, count):
        at, theirs, labels = self.picked(pairs)
        target, hot = torch.zeros_like(logits), torch.zeros_like(logits)
        with torch.no_grad():
            target[at[0], at[1], labels] = iou_giou(boxes[at], theirs)[0]
            hot[at[0], at[1], labels] = 1
            p = logits.sigmoid()
            if self.kind == "mal":
                target = target ** 1.5
                weight = p ** 1.5 * (1 - hot) + hot
            else:
                weight = 0.75 * p ** 2 * (1 - hot) + target
        entropy = F.softplus(logits) - logits * target
        self.terms[self.kind + suffix] = (entropy * weight).sum() / count

    def regress(self, suffix, boxes, pairs, count):
        at, theirs, _ = self.picked(pairs)
        self.terms["bbox" + suffix] = 5 * (boxes[at] - theirs).abs().sum() / count
        self.terms["giou" + suffix] = 2 * (1 - iou_giou(boxes[at], theirs)[1]).sum() / count

    def local(self, suffix, layer, teacher, refs, pairs, count, noise=False):
        _, boxes, corners = layer
        at, theirs, _ = self.picked(pairs)
        iou = iou_giou(boxes[at], theirs)[0].detach()
        ref, sides = refs[at], corners_of(theirs)
        unit = ref[:, 2:] / self.reg_scale
        d = torch.cat([(ref[:, :2] - sides[:, :2]) / unit, (sides[:, 2:] - ref[:, :2]) / unit], -1) - self.reg_scale / 2
        low = (self.project[None, None] <= d[..., None]).sum(-1) - 1
        right = torch.zeros_like(d)
        inside = (low >= 0) & (low < REG_MAX)
        safe = low.clamp(0, REG_MAX - 1)
        right[inside] = ((d - self.project[safe]) / (self.project[safe + 1] - self.project[safe]))[inside]
        right[low >= REG_MAX] = 1
        logs = corners.reshape(BATCH, -1, 4, REG_MAX + 1).log_softmax(-1)[at]
        pick = lambda index: logs.gather(-1, index[..., None])[..., 0]
        entropy = -(pick(safe) * (1 - right) + pick(safe + 1) * right)
        self.terms["fgl" + suffix] = 0.15 * (entropy * iou[:, None]).sum() / count
        if teacher is layer:
            return
        t = 5.0
        logits, _, goal = teacher
        weight = logits.detach().sigmoid().amax(-1)
        weight[at] = iou
        matched = torch.zeros_like(weight, dtype=torch.bool)
        matched[at] = True
        by_side = lambda of: (of.reshape(BATCH, -1, 4, REG_MAX + 1) / t).log_softmax(-1)
        goal = by_side(goal.detach())
        kl = (goal.exp() * (goal - by_side(corners))).sum(-1) * t * t * weight[..., None]
        if not noise:
            self.roots = (4 * matched.sum()) ** 0.5, (4 * (~matched).sum()) ** 0.5
        a, b = self.roots
        self.terms["ddf" + suffix] = 1.5 * (kl[matched].mean() * a + kl[~matched].mean() * b) / (a + b)


def losses_of(out, noise, boxes, labels, case, kind):
    slots = 2 * GROUPS * OBJECTS
    split = lambda values, part: tuple(v[:, :slots] if part else v[:, slots:] for v in values)
    losses = Losses(boxes, labels, case["reg_scale"], kind)
    layers = [split(v, 0) for v in out["layers"]]
    refs, pre, enc, last = out["refs"][:, slots:], split(out["pre"], 0), out["enc"], len(layers) - 1
    own = [match(*v[:2], boxes, labels) for v in layers]
    own_pre, own_enc = match(*pre, boxes, labels), match(*enc, boxes, labels)
    go = unite([own[last]] + own[:last] + [own_pre, own_enc])
    count, go_count = BATCH * OBJECTS, sum(len(found) for found in go)
    for i in list(range(last)) + [last]:
        suffix = "" if i == last else f"_aux_{i}"
        losses.classes(suffix, *layers[i][:2], own[i], count)
        losses.regress(suffix, layers[i][1], go, go_count)
        losses.local(suffix, layers[i], layers[last], refs, go, go_count)
    for suffix, values, pairs in (("_pre", pre, own_pre), ("_enc_0", enc, own_enc)):
        losses.classes(suffix, *values, pairs, count)
        losses.regress(suffix, values[1], go, go_count)
    known = [[(q, j % OBJECTS) for j, q in enumerate(noise["positives"])]] * BATCH
    layers, refs, pre = [split(v, 1) for v in out["layers"]], out["refs"][:, :slots], split(out["pre"], 1)
    for i, layer in enumerate(layers):
        losses.classes(f"_dn_{i}", *layer[:2], known, count * GROUPS)
        losses.regress(f"_dn_{i}", layer[1], known, count * GROUPS)
        losses.local(f"_dn_{i}", layer, layers[last], refs, known, count * GROUPS, noise=True)
    losses.classes("_dn_pre", *pre, known, count * GROUPS)
    losses.regress("_dn_pre", pre[1], known, count * GROUPS)
    return losses.terms, go_count


def samples(tensor, count):
    flat = tensor.detach().flatten()
    count = min(count, flat.numel())
    return flat[torch.arange(count) * flat.numel() // count]


def write_safetensors(path, tensors):
    header, blob = {}, b""
    for name, tensor in tensors.items():
        values = tensor.to(torch.float32).tolist()
        header[name] = {"dtype": "F32", "shape": [len(values)], "data_offsets": [len(blob), len(blob) + 4 * len(values)]}
        blob += struct.pack(f"<{len(values)}f", *values)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + blob)


def published_state():
    """Every entry of size S under its published name, with a few values."""
    case = CASES["s"] | dict(size=64, queries=10)
    images = fractions("images", BATCH, 3, 64, 64)
    network = Network(case, training=True)
    network.forward(images, noise_of(*objects(), 10))
    network.training = False
    with torch.no_grad():
        network.forward(images)
    w, state = network.w, {}
    for name, value in (w.learned | w.kept).items():
        state[name] = value.detach().float()
        if name.endswith("running_var"):
            state[name[:-len("running_var")] + "num_batches_tracked"] = torch.tensor(7)
    for i in range(case["layers"]):
        scale = [1 / n for n in case["points"] for _ in range(n)]
        state[f"decoder.decoder.layers.{i}.cross_attn.num_points_scale"] = torch.tensor(scale)
    for module in ("decoder", "decoder.decoder"):
        state[module + ".up"], state[module + ".reg_scale"] = torch.tensor([UP]), torch.tensor([case["reg_scale"]])
    cells = sum((640 // stride) ** 2 for stride in (8, 16, 32))
    state["decoder.anchors"] = torch.full((1, cells, 4), math.inf)
    state["decoder.valid_mask"] = torch.zeros((1, cells, 1), dtype=torch.bool)
    return state


def write_weights(path):
    state = published_state()
    older = {name: value * 0 for name, value in state.items()}
    torch.save({"date": "2025-01-01T00:00:00", "last_epoch": 3, "model": {"module." + k: v for k, v in older.items()},
                "ema": {"module": state, "updates": 5}}, path)


def check_names(path):
    found = torch.load(path)["model"]
    shapes = {name: tuple(value.shape) for name, value in published_state().items()}
    mine = {name: tuple(value.shape) for name, value in found.items()}
    for name in sorted(shapes.keys() | mine.keys()):
        if shapes.get(name) != mine.get(name):
            print(f"{name}: published {shapes.get(name)}, found {mine.get(name)}")
    sys.exit(shapes != mine)


def main():
    if sys.argv[1:2] in (["--weights"], ["--names"]):
        return (write_weights if sys.argv[1] == "--weights" else check_names)(sys.argv[2])
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent
    count = int(sys.argv[2]) if len(sys.argv) > 2 else SAMPLES
    boxes, labels = objects()
    facts, tensors = {}, {}
    for name, case in CASES.items():
        images = fractions("images", BATCH, 3, case["size"], case["size"])
        fact = facts[name] = {}
        with torch.no_grad():
            network = Network(case, training=False)
            logits, found, _ = network.forward(images)["layers"][-1]
        # Only training uses the last layers and the embedding.
        fact["norms"] = {"logits": logits.norm().item(), "boxes": found.norm().item()}
        tensors |= {f"{name}.logits": samples(logits, 60 * count), f"{name}.boxes": samples(found, 60 * count)}
        if name != "s":
            continue
        network = Network(case, training=True)
        noise = noise_of(boxes, labels, case["queries"])
        out = network.forward(images, noise)
        fact["parameters"] = sum(w.numel() for w in network.w.learned.values())
        for kind in ("mal", "vfl"):
            terms, fact["united"] = losses_of(out, noise, boxes, labels, case, kind)
            fact[kind] = {key: value.item() for key, value in terms.items()}
        sum(terms.values()).backward()
        fact["gradients"] = {key: w.grad.norm().item() for key, w in network.w.learned.items()}
        tensors |= {f"{name}.{key}": samples(w.grad, count) for key, w in network.w.learned.items()}
    (folder / "dfine.json").write_text(json.dumps(facts, indent=0) + "\n")
    write_safetensors(folder / "dfine.safetensors", tensors)


main()
