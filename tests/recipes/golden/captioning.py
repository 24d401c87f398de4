# SPDX-License-Identifier: Apache-2.0
"""Writes captioning.json next to this file: log-probabilities and gradients of the captioning networks, computed from their
formulas in float64.

The networks are functions of a dict of weights, sharing no code with the recipe; names are the recipe's. Weights,
images, features and words are functions of a name and an element's index; captioning_golden_test.cpp computes the same ones. The
file holds the norm of each gradient and its product with such numbers.
Run with the Python whose torch is the reference (Debian 12: /usr/bin/python3).
"""
import json
import math
import pathlib

import torch
import torch.nn.functional as F

WORDS, DIM, HEADS, PICTURES, CAPTIONS, LENGTH = 11, 16, 4, 2, 3, 6
DEPTH = DIM // HEADS


def fractions(name, *shape):
    """Numbers in [0, 1) with 24 bits: a multiplicative hash of index and name (32-bit FNV-1a)."""
    salt = 2166136261
    for byte in name.encode():
        salt = ((salt ^ byte) * 16777619) & 0xFFFFFFFF
    index = torch.arange(math.prod(shape), dtype=torch.int64)
    hashed = (index * 2654435761 + salt * 40503 + 12345) & 0xFFFFFFFF
    hashed = ((hashed ^ (hashed >> 15)) * 2246822519) & 0xFFFFFFFF
    return ((hashed >> 8).to(torch.float64) / (1 << 24)).reshape(shape)


class Weights:
    """Creates a weight on first use, so a network has just the weights it needs."""

    def __init__(self):
        self.made = {}

    def __call__(self, name, *shape):
        if name not in self.made:
            f = fractions(name, *shape)
            if len(shape) > 1:
                value = (f - 0.5) * (2 * math.sqrt(3 / math.prod(shape[1:])))
            elif name.endswith("weight"):  # of a norm
                value = 0.75 + 0.5 * f
            else:
                value = (f - 0.5) * 0.4
            self.made[name] = value.requires_grad_()
        assert tuple(self.made[name].shape) == shape, name
        return self.made[name]


class Network:
    def __init__(self):
        self.w = Weights()

    def linear(self, name, x, out, bias=True):
        y = x @ self.w(name + ".weight", out, x.shape[-1]).T
        return y + self.w(name + ".bias", out) if bias else y

    def norm(self, name, x):
        c = x.shape[-1]
        return F.layer_norm(x, (c,), self.w(name + ".weight", c), self.w(name + ".bias", c))

    def small_backbone(self, x, width, stride):
        outs = [(width * 2**i, 2) for i in range(int(math.log2(stride)))]
        for i, (out, step) in enumerate(outs + [(outs[-1][0], 1)]):
            name = "features.backbone."
            x = F.conv2d(x, self.w(f"{name}conv{i}.weight", out, x.shape[1], 3, 3), None, step, 1)
            mean, var = x.mean((0, 2, 3), keepdim=True), x.var((0, 2, 3), unbiased=False, keepdim=True)
            unit = (x - mean) / (var + 1e-5).sqrt()
            scale, shift = self.w(f"{name}bn{i}.weight", out), self.w(f"{name}bn{i}.bias", out)
            x = torch.relu(unit * scale.view(1, -1, 1, 1) + shift.view(1, -1, 1, 1))
        return x

    def embed(self, features):
        return F.celu(self.linear("features.embed", features, DIM), 1.3)


def sinusoid(position, dim):
    return [f(position / 10000 ** (2 * i / dim)) for i in range(dim // 2) for f in (math.sin, math.cos)]


def of_grid(height, width):
    rows = [sinusoid(r, DIM // 2) + sinusoid(c, DIM // 2) for r in range(height) for c in range(width)]
    return torch.tensor(rows, dtype=torch.float64)


def heads_of(x):
    return x.reshape(-1, HEADS, DEPTH).transpose(0, 1)


def attention(q, k, v, add=0):
    """Rows of one sequence; add: [heads or 1, queries, keys]."""
    scores = heads_of(q) @ heads_of(k).transpose(1, 2) / math.sqrt(DEPTH) + add
    return (torch.softmax(scores, -1) @ heads_of(v)).transpose(0, 1).reshape(-1, DIM)


class Transformer(Network):
    def __init__(self, window, height, width, backbone):
        super().__init__()
        self.window, self.height, self.width, self.backbone = window, height, width, backbone

    def groups(self, shifted):
        """For each window after the shift: (row, column, part) of its cells; different parts do not see each other."""

        def side(cells):
            if self.window >= cells:
                return {c: (0, 0) for c in range(cells)}
            padded = -(-cells // self.window) * self.window
            shift = self.window // 2 if shifted else 0
            return {c: ((c - shift) % padded // self.window, int(c < shift)) for c in range(cells)}

        rows, columns = side(self.height), side(self.width)
        windows = {}
        for r in range(self.height):
            for c in range(self.width):
                windows.setdefault((rows[r][0], columns[c][0]), []).append((r, c, (rows[r][1], columns[c][1])))
        return list(windows.values())

    def window_attention(self, name, x, shifted):
        """The attention of one image: [cells + 1, DIM], the global token last."""
        q, k, v = self.linear(name + ".query_key_value", x, 3 * DIM).split(DIM, 1)
        side = 2 * self.window - 1
        table = self.w(name + ".distance_bias", side * side, HEADS)
        out, of_global, last = {}, [], len(x) - 1
        for cells in self.groups(shifted):
            index = [r * self.width + c for r, c, _ in cells] + [last]
            add = torch.zeros(HEADS, len(index), len(index), dtype=torch.float64)
            for i, (r, c, part) in enumerate(cells):
                for j, (s, d, other) in enumerate(cells):
                    row = (r - s + self.window - 1) * side + c - d + self.window - 1
                    add[:, i, j] = table[row] if part == other else -math.inf
            seen = attention(q[index], k[index], v[index], add)
            out.update(zip(index[:-1], seen[:-1]))
            of_global.append(seen[-1])
        rows = [out[i] for i in range(last)] + [torch.stack(of_global).mean(0)]
        return self.linear(name + ".out", torch.stack(rows), DIM)

    def feed_forward(self, name, x):
        return self.linear(name + ".second", torch.relu(self.linear(name + ".first", x, 24)), DIM)

    def encode(self, data):
        if self.backbone:
            data = self.small_backbone(data, 8, 8).flatten(2).transpose(1, 2)
        tokens = self.embed(data)
        glob = tokens.mean(1, keepdim=True)
        if self.backbone:
            tokens = tokens + of_grid(self.height, self.width)
        pictures = torch.cat([tokens, glob], 1)
        for i in range(2):
            name = f"encoder{i}"
            seen = torch.stack([self.window_attention(name + ".attention", x, i % 2 == 1) for x in pictures])
            pictures = self.norm(name + ".attention_norm", pictures + seen)
            pictures = self.norm(name + ".feed_forward_norm", pictures + self.feed_forward(name + ".feed_forward", pictures))
        return pictures

    def decode(self, picture, words):
        """Computes one caption of one image."""
        places = torch.tensor([sinusoid(t + 1, DIM) for t in range(len(words))], dtype=torch.float64)
        x = self.w("words.weight", WORDS, DIM)[words] * math.sqrt(DIM) + places
        unseen = torch.full((1, len(words), len(words)), -math.inf, dtype=torch.float64).triu(1)
        for i in range(2):
            name = f"decoder{i}."
            both = torch.cat([x, picture[-1].expand_as(x)], 1)
            x = self.norm(name + "fuse_norm", torch.relu(self.linear(name + "fuse", both, DIM)) + x)
            q, k, v = self.linear(name + "query_key_value", x, 3 * DIM).split(DIM, 1)
            x = self.norm(name + "self_norm", x + self.linear(name + "self_out", attention(q, k, v, unseen), DIM))
            k, v = self.linear(name + "key_value", picture, 2 * DIM).split(DIM, 1)
            found = attention(self.linear(name + "query", x, DIM), k, v)
            x = self.norm(name + "cross_norm", x + self.linear(name + "cross_out", found, DIM))
            x = self.norm(name + "feed_forward_norm", x + self.feed_forward(name + "feed_forward", x))
        return torch.log_softmax(self.linear("classifier", x, WORDS), -1)

    def forward(self, data, words):
        pictures = self.encode(data)
        return torch.stack([self.decode(pictures[n // CAPTIONS], words[n]) for n in range(len(words))])


class XLinear(Network):
    MIDDLE, WORD = 3, 10

    def __init__(self, lengths=None, backbone=False):
        super().__init__()
        self.lengths, self.backbone = lengths, backbone

    def normed(self, name, x):
        """Maps [N, DIM] to two tensors [N, HEADS, DEPTH]."""
        active = F.celu(self.linear(name + ".linear", x, 2 * DIM), 1.3).reshape(len(x), 2 * HEADS, DEPTH)
        unit = F.layer_norm(active, (DEPTH,)).reshape(len(x), 2 * DIM)
        both = unit * self.w(name + ".norm_weight", 2 * DIM) + self.w(name + ".norm_bias", 2 * DIM)
        return [half.reshape(len(x), HEADS, DEPTH) for half in both.split(DIM, 1)]

    def attend(self, name, query, tokens):
        """query [DIM], tokens [L, DIM] of one image."""
        (q,), (v1,) = self.normed(name + ".of_query", query.unsqueeze(0))
        k, v2 = self.normed(name + ".of_regions", tokens)
        middle = torch.relu(self.linear(name + ".middle", q * k, self.MIDDLE))  # [L, HEADS, MIDDLE]
        share = torch.softmax(self.linear(name + ".region_weight", middle, 1, bias=False), 0)
        channel = torch.sigmoid(self.linear(name + ".channel_weight", middle.mean(0), DEPTH))
        return (v1 * (share * v2).sum(0) * channel).flatten()

    def encode(self, tokens, glob):
        found = [glob]
        for i in range(2):
            name = f"encoder.layer{i}."
            glob = self.attend(name + "attention", glob, tokens)
            found.append(glob)
            both = torch.cat([tokens, glob.expand_as(tokens)], 1)
            tokens = self.norm(name + "norm", torch.relu(self.linear(name + "update", both, DIM)) + tokens)
        return tokens, self.norm("encoder.norm", self.linear("encoder.join", torch.cat(found), DIM))

    def decode(self, tokens, glob, words):
        h = c = context = torch.zeros(DIM, dtype=torch.float64)
        logits = []
        for word in words:
            embedded = self.w("words.weight", WORDS, self.WORD)[word]
            gates = self.linear("decoder.of_word", embedded, 4 * DIM)
            gates = gates + self.w("decoder.of_state", 4 * DIM, 2 * DIM) @ torch.cat([glob + context, h])
            enter, forget, leave, new = gates.split(DIM)
            c = torch.sigmoid(forget) * c + torch.sigmoid(enter) * torch.tanh(new)
            h = torch.sigmoid(leave) * torch.tanh(c)
            found = [h]
            for i in range(2):
                found.append(self.attend(f"decoder.attention{i}", found[-1], tokens))
            attended = self.norm("decoder.norm", self.linear("decoder.join", torch.cat(found), DIM))
            a, b = self.linear("decoder.context", torch.cat([attended, h]), 2 * DIM).split(DIM)
            context = a * torch.sigmoid(b)
            logits.append(self.linear("classifier", context, WORDS))
        return torch.log_softmax(torch.stack(logits), -1)

    def forward(self, data, words):
        if self.backbone:
            grid = self.small_backbone(data, 8, 8)
            data = grid.flatten(2).transpose(1, 2)
        pictures = []
        for b in range(len(data)):
            tokens = self.embed(data[b] if self.lengths is None else data[b, :self.lengths[b]])
            glob = tokens.mean(0)
            pictures.append(self.encode(tokens + of_grid(*grid.shape[2:]) if self.backbone else tokens, glob))
        return torch.stack([self.decode(*pictures[n // CAPTIONS], words[n]) for n in range(len(words))])


def main():
    words = torch.floor(fractions("words", PICTURES * CAPTIONS, LENGTH) * WORDS).to(torch.int64)
    words[:, 0] = 0
    cases = {
        "transformer_windows": (Transformer(3, 7, 5, False), fractions("features", PICTURES, 35, 12)),
        "transformer_pictures": (Transformer(6, 5, 3, True), fractions("pictures", PICTURES, 3, 40, 24)),
        "x_linear_lengths": (XLinear([5, 3]), fractions("features", PICTURES, 5, 12)),
        "x_linear_pictures": (XLinear(None, True), fractions("pictures", PICTURES, 3, 40, 24)),
    }
    golden = {}
    for name, (net, data) in cases.items():
        logs = net.forward((data - 0.5) * 4, words)
        (logs * (fractions("loss", *logs.shape) - 0.5)).sum().backward()
        gradients = {}
        for key, weight in sorted(net.w.made.items()):
            probe = (weight.grad * (fractions(key + ".probe", *weight.shape) - 0.5)).sum()
            gradients[key] = [float(f"{value.item():.9g}") for value in (weight.grad.norm(), probe)]
        golden[name] = {"log_probs": [float(f"{v:.9g}") for v in logs.flatten().tolist()], "gradients": gradients}
        print(name, "weights", len(gradients), "deviation", logs.std().item(), "least", min(v[0] for v in gradients.values()))
    path = pathlib.Path(__file__).with_suffix(".json")
    path.write_text(json.dumps(golden, separators=(",", ":")).replace('},"', '},\n"') + "\n")


main()
