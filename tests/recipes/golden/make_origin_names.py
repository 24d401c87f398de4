# SPDX-License-Identifier: Apache-2.0
"""Writes origin_names.json next to this file: the names and shapes in the state dicts of segmentation's and
captioning's original networks, and their results in float64.

The networks are written from their descriptions, with the names in the original files (res50_ASPP_lorm.py, deeplabV3_lorm.py;
xlan.py, pure_transformer.py). Weights and inputs are functions of a name and an element's index; the tests compute the same.
`--write FOLDER` also writes each state dict the way the originals do, and `--read FILE NAME` loads one strictly and prints the
difference between its outputs and the JSON.
Run with the Python whose torch is the reference (Debian 12: /usr/bin/python3).
"""
import json
import math
import pathlib
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

JSON = pathlib.Path(__file__).with_name("origin_names.json")
CLASSES, WORDS, LENGTH = 21, 11, 6


def fractions(name, *shape):
    """Numbers in [0, 1) with 24 bits: a multiplicative hash of index and name (32-bit FNV-1a)."""
    salt = 2166136261
    for byte in name.encode():
        salt = ((salt ^ byte) * 16777619) & 0xFFFFFFFF
    index = torch.arange(math.prod(shape), dtype=torch.int64)
    hashed = (index * 2654435761 + salt * 40503 + 12345) & 0xFFFFFFFF
    hashed = ((hashed ^ (hashed >> 15)) * 2246822519) & 0xFFFFFFFF
    return ((hashed >> 8).to(torch.float64) / (1 << 24)).reshape(shape)


def value_of(name, like):
    if not like.is_floating_point():
        return like
    f = fractions(name, *like.shape)
    if like.dim() > 1:
        return (f - 0.5) * (2 * math.sqrt(3 / math.prod(like.shape[1:])))
    return 0.75 + 0.5 * f if name.endswith(("weight", "running_var")) else (f - 0.5) * 0.4


# Segmentation.


def conv(into, out, kernel=1, stride=1, dilation=1, bias=False):
    return nn.Conv2d(into, out, kernel, stride, kernel // 2 * dilation, dilation, bias=bias)


class Bottleneck(nn.Module):
    def __init__(self, into, middle, stride, dilation):
        super().__init__()
        self.conv1, self.bn1 = conv(into, middle, 1, stride), nn.BatchNorm2d(middle)
        self.conv2, self.bn2 = conv(middle, middle, 3, 1, dilation), nn.BatchNorm2d(middle)
        self.conv3, self.bn3 = conv(middle, 4 * middle), nn.BatchNorm2d(4 * middle)
        if stride != 1 or into != 4 * middle:
            self.downsample = nn.Sequential(conv(into, 4 * middle, 1, stride), nn.BatchNorm2d(4 * middle))

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        y = self.bn3(self.conv3(torch.relu(self.bn2(self.conv2(y)))))
        return torch.relu(y + (self.downsample(x) if hasattr(self, "downsample") else x))


class Branch(nn.Module):
    def __init__(self, into, out, kernel, dilation):
        super().__init__()
        self.atrous_conv, self.bn = conv(into, out, kernel, 1, dilation), nn.BatchNorm2d(out)

    def forward(self, x):
        return torch.relu(self.bn(self.atrous_conv(x)))


class Pyramid(nn.Module):
    """LoRM of the classes' width with `conv1` and `bn1`, or of 256 channels with `prject`."""

    def __init__(self, into, width, rates, of_classes):
        super().__init__()
        for i, rate in enumerate([1] + rates, 1):
            setattr(self, f"aspp{i}", Branch(into, width, 1 if i == 1 else 3, rate))
        self.global_avg_pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), conv(into, width), nn.BatchNorm2d(width), nn.ReLU())
        if of_classes:
            self.conv1, self.bn1 = conv(5 * width, width), nn.BatchNorm2d(width)
        else:
            self.prject = nn.Sequential(conv(5 * width, width), nn.BatchNorm2d(width), nn.ReLU(), nn.Dropout(0.5))

    def forward(self, x):
        parts = [getattr(self, f"aspp{i}")(x) for i in range(1, 5)]
        parts.append(self.global_avg_pool(x).expand_as(parts[0]))
        both = torch.cat(parts, 1)
        return self.bn1(self.conv1(both)) if hasattr(self, "conv1") else self.prject(both)


class Lorm(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.query_conv, self.key_conv = conv(channels, channels, bias=True), conv(channels, channels, bias=True)
        self.gamma = nn.Parameter(torch.ones(1))

    def forward(self, x, labels):
        batch, channels, height, width = x.shape
        known = torch.where(labels == 255, torch.zeros_like(labels), labels).to(x.dtype).unsqueeze(1)
        mask = F.interpolate(known, (height, width), mode="bilinear", align_corners=True).flatten(1) > 0
        q, k = self.query_conv(x).flatten(2).transpose(1, 2), self.key_conv(x).flatten(2)
        cosine = (q @ k) / (q.norm(dim=2, keepdim=True) @ k.norm(dim=1, keepdim=True))
        attention = torch.softmax(cosine, 2) * mask.unsqueeze(2)
        new = self.gamma * (attention @ x.flatten(2).transpose(1, 2)).transpose(1, 2).reshape(x.shape)
        square = (x - new) ** 2
        return square.sum() / torch.count_nonzero(square)


class Segmenter(nn.Module):
    def __init__(self, head):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        before = 64
        for number, (middle, blocks, stride, dilations) in enumerate(
                [(64, 3, 1, [1] * 3), (128, 4, 2, [1] * 4), (256, 6, 1, [2] * 6), (512, 3, 1, [4, 8, 16])], 1):
            stage = []
            for i in range(blocks):
                stage.append(Bottleneck(before, middle, stride if i == 0 else 1, dilations[i]))
                before = 4 * middle
            setattr(self, f"layer{number}", nn.Sequential(*stage))
        if head == "res50_ASPP_lorm":
            self.layer_pred0, self.layer_camatt = Pyramid(2048, CLASSES, [12, 18, 24], True), Lorm(2048)
        elif head == "deeplabv2":
            self.layer5 = Pyramid(2048, CLASSES, [12, 18, 24], True)
        else:
            self.layer_pred0 = Pyramid(2048, 256, [6, 12, 18], False)
            self.reduce = nn.Sequential(conv(256, 48), nn.BatchNorm2d(48), nn.ReLU())
            self.fuse = nn.Sequential(conv(304, 256, 3), nn.BatchNorm2d(256), nn.ReLU(), conv(256, 256, 3),
                                      nn.BatchNorm2d(256), nn.ReLU())
            self.classifier = conv(256, CLASSES, bias=True)
            self.layer_lorm = Lorm(2048)

    def forward(self, pictures, labels):
        x = F.max_pool2d(torch.relu(self.bn1(self.conv1(pictures))), 3, 2, 1, ceil_mode=True)
        low = self.layer1(x)
        high = self.layer4(self.layer3(self.layer2(low)))
        if hasattr(self, "layer5"):
            return {"logits": self.layer5(high)}
        logits, lorm = self.layer_pred0(high), self.layer_camatt if hasattr(self, "layer_camatt") else self.layer_lorm
        if hasattr(self, "fuse"):
            wide = F.interpolate(logits, low.shape[2:], mode="bilinear", align_corners=True)
            logits = self.classifier(self.fuse(torch.cat([self.reduce(low), wide], 1)))
        return {"logits": logits, "lorm": lorm(high, labels)}


# Captioning: X-LAN.

DIM, HEADS, WIDTH, GRID = 16, 4, 12, 12
DEPTH = DIM // HEADS


class LowRank(nn.Module):
    def __init__(self, middle):
        super().__init__()
        for name in "q", "k", "v1", "v2":
            setattr(self, "in_proj_" + name, nn.Sequential(nn.Linear(DIM, DIM), nn.CELU(1.3), nn.GroupNorm(HEADS, DIM)))
        self.attn_net = nn.Module()
        self.attn_net.attention_basic = nn.Sequential(nn.Linear(DEPTH, middle), nn.ReLU())
        self.attn_net.attention_last, self.attn_net.attention_last2 = nn.Linear(middle, 1), nn.Linear(middle, DEPTH)

    def forward(self, query, regions):
        """query [DIM], regions [L, DIM]; to [DIM]."""
        q, v1 = (m(query.unsqueeze(0)).view(HEADS, 1, DEPTH) for m in (self.in_proj_q, self.in_proj_v1))
        k, v2 = (m(regions).view(-1, HEADS, DEPTH).transpose(0, 1) for m in (self.in_proj_k, self.in_proj_v2))
        seen = self.attn_net.attention_basic(q * k)
        share = torch.softmax(self.attn_net.attention_last(seen), 1)
        channel = torch.sigmoid(self.attn_net.attention_last2(seen.mean(1)))
        return (v1.squeeze(1) * (share * v2).sum(1) * channel).flatten()


def holder(**parts):
    module = nn.Module()
    for name, part in parts.items():
        setattr(module, name, part)
    return module


class XLan(nn.Module):
    def __init__(self, word=10, middle=3):
        super().__init__()
        self.word_embed = nn.Sequential(nn.Embedding(WORDS, word), nn.CELU(1.3))
        self.att_embed = nn.Sequential(nn.Linear(WIDTH, DIM), nn.CELU(1.3))
        layers = lambda: nn.ModuleList(holder(encoder_attn=LowRank(middle)) for _ in range(2))
        self.encoder_layers = holder(
            layers=layers(), bifeat_emb=nn.ModuleList(nn.Sequential(nn.Linear(2 * DIM, DIM), nn.ReLU()) for _ in range(2)),
            layer_norms=nn.ModuleList(nn.LayerNorm(DIM) for _ in range(2)), proj=nn.Linear(3 * DIM, DIM),
            layer_norm=nn.LayerNorm(DIM))
        self.logit = nn.Linear(DIM, WORDS)
        self.att_lstm = nn.LSTMCell(word + DIM, DIM)
        self.attention = holder(layers=layers(), proj=nn.Linear(3 * DIM, DIM), layer_norm=nn.LayerNorm(DIM))
        self.att2ctx = nn.Sequential(nn.Linear(2 * DIM, 2 * DIM), nn.GLU())

    def attend(self, block, query, regions, update=None):
        found = [query]
        for i, layer in enumerate(block.layers):
            found.append(layer.encoder_attn(found[-1], regions))
            if update:
                both = torch.cat([found[-1].expand_as(regions), regions], 1)
                regions = block.layer_norms[i](block.bifeat_emb[i](both) + regions)
        return block.layer_norm(block.proj(torch.cat(found))), regions

    def forward(self, features, words):
        logs = []
        for picture, captions in zip(features, words):
            regions = self.att_embed(picture)
            glob, regions = self.attend(self.encoder_layers, regions.mean(0), regions, True)
            for caption in captions:
                h = c = context = torch.zeros(1, DIM, dtype=torch.float64)
                for word in self.word_embed(caption):
                    h, c = self.att_lstm(torch.cat([word, glob + context[0]]).unsqueeze(0), (h, c))
                    found, _ = self.attend(self.attention, h[0], regions)
                    context = self.att2ctx(torch.cat([found, h[0]])).unsqueeze(0)
                    logs.append(torch.log_softmax(self.logit(context[0]), 0))
        return {"log_probs": torch.stack(logs)}


# Captioning: PureT without its backbone.

WINDOW, SHIFT = 6, 3


def attention(q, k, v, add=0):
    """[rows, DIM] each; add [HEADS or 1, queries, keys]."""
    q, k, v = (x.view(-1, HEADS, DEPTH).transpose(0, 1) for x in (q, k, v))
    return (torch.softmax(q @ k.transpose(1, 2) / math.sqrt(DEPTH) + add, -1) @ v).transpose(0, 1).reshape(-1, DIM)


def projections():
    return {name: nn.Linear(DIM, DIM) for name in ("q_linear", "k_linear", "v_linear", "o_linear")}


def feed_forward():
    return holder(fc1=nn.Linear(DIM, 4 * DIM), fc2=nn.Linear(4 * DIM, DIM))


def cells_of_windows(shift):
    """For each window, the cells of the shifted grid, in order."""
    order = [(c + shift) % GRID for c in range(GRID)]
    return [[(r, c) for r in order[i:i + WINDOW] for c in order[j:j + WINDOW]]
            for i in range(0, GRID, WINDOW) for j in range(0, GRID, WINDOW)]


class EncoderLayer(nn.Module):
    def __init__(self, shift):
        super().__init__()
        self.shift = shift
        self.encoder_attn = holder(**projections())
        side = 2 * WINDOW - 1
        self.encoder_attn.relative_position_bias_table = nn.Parameter(torch.zeros(side * side, HEADS))
        row = torch.arange(WINDOW).repeat_interleave(WINDOW)
        column = torch.arange(WINDOW).repeat(WINDOW)
        apart = lambda of: of[:, None] - of[None] + WINDOW - 1
        self.encoder_attn.register_buffer("relative_position_index", apart(row) * side + apart(column))
        self.layer_norm1, self.ff_layer, self.layer_norm2 = nn.LayerNorm(DIM), feed_forward(), nn.LayerNorm(DIM)
        if shift:
            part = lambda cell: (cell[0] < shift, cell[1] < shift)
            masks = [[[0.0 if part(a) == part(b) else -1e9 for b in window] for a in window]
                     for window in cells_of_windows(shift)]
            self.register_buffer("attn_mask", torch.tensor(masks))

    def forward(self, x):
        """[GRID * GRID + 1, DIM], the global token last."""
        at, out, of_global = self.encoder_attn, x.clone(), []
        bias = at.relative_position_bias_table[at.relative_position_index].permute(2, 0, 1)
        for number, window in enumerate(cells_of_windows(self.shift)):
            rows = torch.tensor([r * GRID + c for r, c in window] + [GRID * GRID])
            add = F.pad(bias + self.attn_mask[number] if self.shift else bias, (0, 1, 0, 1))
            seen = at.o_linear(attention(at.q_linear(x[rows]), at.k_linear(x[rows]), at.v_linear(x[rows]), add))
            out[rows[:-1]] = seen[:-1]
            of_global.append(seen[-1])
        out[-1] = torch.stack(of_global).mean(0)
        x = self.layer_norm1(out + x)
        return self.layer_norm2(x + self.ff_layer.fc2(torch.relu(self.ff_layer.fc1(x))))


class DecoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.word_attn, self.layer_norm1 = holder(**projections()), nn.LayerNorm(DIM)
        self.cross_att, self.layer_norm2 = holder(**projections()), nn.LayerNorm(DIM)
        self.ff_layer, self.layer_norm3 = feed_forward(), nn.LayerNorm(DIM)
        self.fuse_layer, self.fuse_layer_norm = nn.Sequential(nn.Linear(2 * DIM, DIM), nn.ReLU()), nn.LayerNorm(DIM)

    def forward(self, x, picture):
        x = self.fuse_layer_norm(self.fuse_layer(torch.cat([x, picture[-1].expand_as(x)], 1)) + x)
        a, hidden = self.word_attn, torch.full((1, len(x), len(x)), -1e9, dtype=torch.float64).triu(1)
        x = self.layer_norm1(x + a.o_linear(attention(a.q_linear(x), a.k_linear(x), a.v_linear(x), hidden)))
        a = self.cross_att
        x = self.layer_norm2(x + a.o_linear(attention(a.q_linear(x), a.k_linear(picture), a.v_linear(picture))))
        return self.layer_norm3(x + self.ff_layer.fc2(torch.relu(self.ff_layer.fc1(x))))


def sinusoids(count):
    rows = [[f(p / 10000**(2 * i / DIM)) for i in range(DIM // 2) for f in (math.sin, math.cos)] for p in range(count)]
    table = torch.tensor(rows)
    table[0] = 0
    return table


class PureT(nn.Module):
    def __init__(self):
        super().__init__()
        self.att_embed = nn.Sequential(nn.Linear(WIDTH, DIM), nn.CELU(1.3))
        self.encoder = holder(layers=nn.ModuleList(EncoderLayer(SHIFT * (i % 2)) for i in range(3)))
        self.decoder = holder(layers=nn.ModuleList(DecoderLayer() for _ in range(2)), word_embed=nn.Embedding(WORDS, DIM),
                              pos_embed=nn.Embedding.from_pretrained(sinusoids(100)), generator=nn.Linear(DIM, WORDS))

    def forward(self, features, words):
        logs = []
        for picture, captions in zip(features, words):
            x = self.att_embed(picture)
            x = torch.cat([x, x.mean(0, keepdim=True)])
            for layer in self.encoder.layers:
                x = layer(x)
            for caption in captions:
                y = self.decoder.word_embed(caption) * math.sqrt(DIM)
                y = y + self.decoder.pos_embed(torch.arange(1, len(caption) + 1))
                for layer in self.decoder.layers:
                    y = layer(y, x)
                logs.append(torch.log_softmax(self.decoder.generator(y), 1))
        return {"log_probs": torch.cat(logs)}


COMPUTED = ("attn_mask", "relative_position_index", "pos_embed.weight", "num_batches_tracked")
CAPTIONERS = {"XLAN": XLan, "PureT": PureT}
SEGMENTERS = ("res50_ASPP_lorm", "deeplabv2", "deeplabv3p_lorm")


def network(name):
    net = CAPTIONERS[name]() if name in CAPTIONERS else Segmenter(name)
    state = {key: tensor if key.endswith(COMPUTED) else value_of(key, tensor) for key, tensor in net.state_dict().items()}
    net.double().eval().load_state_dict(state)
    return net


def outputs_of(net, name):
    with torch.no_grad():
        if name in CAPTIONERS:
            words = torch.floor(fractions("words", 2, 2, LENGTH) * WORDS).to(torch.int64)
            words[:, :, 0] = 0
            rows = 5 if name == "XLAN" else GRID * GRID
            return net((fractions("features", 2, rows, WIDTH) - 0.5) * 4, words)
        labels = torch.floor(fractions("labels", 2, 41, 33) * 25).to(torch.int64)
        labels[labels >= CLASSES] = 255
        return net((fractions("images", 2, 3, 41, 33) - 0.5) * 4, labels)


def prefix(name):
    return "module." if name in CAPTIONERS else ""


def far_from(golden, found):
    scale = max(abs(v) for v in golden)
    return max(abs(a - b) for a, b in zip(golden, found.flatten().tolist())) / scale


def main():
    if sys.argv[1:2] == ["--read"]:
        net, state = network(sys.argv[3]), torch.load(sys.argv[2])
        state = state["state_dict"] if "state_dict" in state else state
        start = prefix(sys.argv[3])
        assert all(key.startswith(start) for key in state)
        net.load_state_dict({key[len(start):]: tensor for key, tensor in state.items()}, strict=True)
        facts = json.loads(JSON.read_text())[sys.argv[3]]["outputs"]
        for key, found in outputs_of(net, sys.argv[3]).items():
            print(key, far_from(facts[key], found))
        return
    golden = {}
    for name in (*SEGMENTERS, *CAPTIONERS):
        net = network(name)
        state = net.state_dict()
        if sys.argv[1:2] == ["--write"]:
            file = {prefix(name) + key: tensor.float() if tensor.is_floating_point() else tensor for key, tensor in state.items()}
            torch.save(file if name in CAPTIONERS else {"epoch": 49, "state_dict": file}, f"{sys.argv[2]}/{name}.pth")
            continue
        outputs = {key: [float(f"{v:.9g}") for v in value.flatten().tolist()] for key, value in outputs_of(net, name).items()}
        golden[name] = {"shapes": {key: list(tensor.shape) for key, tensor in state.items()}, "outputs": outputs}
        print(name, len(state), "tensors", {key: (len(v), max(map(abs, v))) for key, v in outputs.items()})
    if golden:
        JSON.write_text(json.dumps(golden, separators=(",", ":")).replace('},"', '},\n"') + "\n")


main()
