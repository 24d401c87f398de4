# SPDX-License-Identifier: Apache-2.0
"""The captcha networks in PyTorch, with the names in the original's model.pkl; captcha_origin_test.cpp runs it.

    make_captcha_weights.py write TYPE FOLDER    # FOLDER/model.pkl, and images with their logits in FOLDER/seen.pth
    make_captcha_weights.py read TYPE FOLDER     # the logits of FOLDER/back.pkl for those images, in FOLDER/again.pth

TYPE is conv7 or conv3. Images are 32 x 16, with 2 characters out of 5, to keep the files small.
"""
import sys

import torch
from torch import nn

HEIGHT, WIDTH, OUTPUTS = 16, 32, 2 * 5
# The channels of each convolution; True if its layer ends with pooling.
LAYERS = {"conv7": [(32, True), (64, False), (64, True), (128, False), (128, False), (128, True), (128, False)],
          "conv3": [(32, True), (64, True), (64, True)]}


class Network(nn.Module):
    def __init__(self, kind):
        super().__init__()
        channels = 1
        self.count = len(LAYERS[kind])
        for index, (out, pools) in enumerate(LAYERS[kind], 1):
            parts = [nn.Conv2d(channels, out, 3, padding=1), nn.BatchNorm2d(out)]
            parts += [nn.Dropout(0.5)] if kind == "conv3" else []
            parts += [nn.ReLU()] + ([nn.MaxPool2d(2)] if pools else [])
            setattr(self, f"layer{index}", nn.Sequential(*parts))
            channels = out
        self.fc = nn.Sequential(nn.Linear(channels * (HEIGHT // 8) * (WIDTH // 8), 1024), nn.Dropout(0.5), nn.ReLU())
        self.rfc = nn.Sequential(nn.Linear(1024, OUTPUTS))

    def forward(self, x):
        for index in range(1, self.count + 1):
            x = getattr(self, f"layer{index}")(x)
        return self.rfc(self.fc(x.flatten(1)))


def main():
    mode, kind, folder = sys.argv[1:]
    torch.manual_seed(7)
    network = Network(kind)
    if mode == "read":
        network.load_state_dict(torch.load(folder + "/back.pkl"))
        with torch.no_grad():
            torch.save({"logits": network.eval()(torch.load(folder + "/seen.pth")["images"])}, folder + "/again.pth")
        return
    with torch.no_grad():
        for name, value in network.named_buffers():  # as after training
            if name.endswith("running_mean"):
                value.normal_(0, 0.1)
            elif name.endswith("running_var"):
                value.uniform_(0.5, 1.5)
        images = torch.rand(3, 1, HEIGHT, WIDTH)
        torch.save(network.state_dict(), folder + "/model.pkl")
        torch.save({"images": images, "logits": network.eval()(images)}, folder + "/seen.pth")


main()
