#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Drops images on demo.html and on the live page in a browser, and compares the results with `lockstep predict`.

Trains a network of each recipe for a few seconds. Skips (exit code 77) with the reason if Node.js, Chromium or the npm packages
are missing.
Example: tests/dashboard/network_test.py --bin build/test/bin --modules build/test/web/node_modules
"""
import argparse
import base64
import json
import pathlib
import shutil
import subprocess
import tempfile

from page_test import address, end, skip, start

HERE = pathlib.Path(__file__).resolve().parent
QUERIES = 300  # of the published networks; at most so many boxes in an image
LEAST = 0.05  # a score; after a few seconds of training no box reaches 0.5


class Trial:
    """Runs commands in its own folder."""

    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, folder
        self.command = str((arguments.bin / "lockstep").resolve())

    def lockstep(self, *words):
        done = subprocess.run([self.command, *map(str, words)], cwd=self.folder, text=True, capture_output=True)
        if done.returncode != 0:
            raise SystemExit(f"error: lockstep {' '.join(map(str, words))}\n{done.stdout}{done.stderr}")
        return done.stdout

    def train(self, preset, *settings):
        self.lockstep("train", preset, "--run-dir", "run", "--set", "workers=0", *settings)

    def predict(self, recipe, pictures, *more):
        lines = self.lockstep("predict", recipe, "--checkpoint", "run:best", "--json", "--batch-size", 1, *more, *pictures)
        return [json.loads(line) for line in lines.splitlines()]

    def demo(self, pictures, *more, **facts):
        """Results of demo.html, opened without a server."""
        self.lockstep("checkpoint", "export", "run:best", "--to", "demo.html", "--no-check", *more)
        return self.browse((self.folder / "demo.html").as_uri(), pictures, **facts)

    def browse(self, url, pictures, **facts):
        facts = {"url": url, "modules": str(self.arguments.modules.resolve()), "chromium": self.arguments.chromium,
                 "pictures": list(map(str, pictures)), **facts}
        done = subprocess.run([self.arguments.node, HERE / "browser/network_test.mjs", json.dumps(facts)], text=True,
                              capture_output=True, timeout=200)
        if done.returncode != 0:
            raise SystemExit(f"error: in the browser\n{done.stdout}{done.stderr}")
        first, *answers = map(json.loads, done.stdout.splitlines())
        print(f"   {first['status']} {answers[-1]['status']}", flush=True)
        return answers

    def pictures(self, recipe, count, size, *more):
        self.lockstep("generate", recipe, "--out", "data", "--count", count, "--seed", 5, "--size", size, "--quiet", *more)
        return sorted((self.folder / "data").glob("*mages/*.png"))


def expect(holds, what):
    if not holds:
        raise SystemExit(f"error: {what}")


def expect_same_words(answers, expected):
    for answer, right in zip(answers, expected, strict=True):
        said = answer["answer"]
        expect(said and said["text"] == right["text"], f"{answer} instead of {right}")
        expect(abs(said["confidence"] - right["confidence"]) < 1e-3, f"{said} is as sure as {right}")
    expect(len({right["text"] for right in expected}) > 1, "the network predicts the same for all images")


def captcha(trial):
    for name, count in (("train", 300), ("test", 4)):
        trial.lockstep("generate", "captcha", "--out", f"data/{name}", "--count", count, "--seed", count, "--charset", "0-9",
                       "--width", 96, "--height", 36, "--style", "custom", "--quiet")
    trial.train("captcha:small", "--set", "data.train=data/train", "--set", "data.test=data/test", "--set", "epochs=2")
    pictures = sorted((trial.folder / "data/test").glob("*.png"))
    expected = trial.predict("captcha", pictures)
    expect_same_words(trial.demo(pictures), expected)
    refuses_other_sizes(trial)
    has_nothing_of_this_machine(trial)
    answers_on_the_live_page(trial, pictures, expected)


def refuses_other_sizes(trial):
    other = HERE.parents[1] / "docs/images/detection_found.png"
    answer = trial.browse((trial.folder / "demo.html").as_uri(), [other])[0]
    expect(answer["answer"] is None and "takes 96 x 36" in answer["status"], f"an image of another size: {answer}")


def has_nothing_of_this_machine(trial):
    """The page is meant to be shared, so it must not contain the settings; an ONNX file does."""
    text = (trial.folder / "demo.html").read_text()
    model = base64.b64decode(text.split('id="model">')[1].split("<")[0])
    expect(b"page.json" in model and b"config.yml" not in model and b"data/train" not in model, "settings in demo.html")


def answers_on_the_live_page(trial, pictures, expected):
    trial.lockstep("checkpoint", "export", "run:best", "--to", "run/model.onnx", "--no-check")
    page = start([trial.command, "dashboard", "run"], trial.folder)
    try:
        answers = trial.browse(address(page), pictures, frame="#network-page", shot=trial.arguments.shot)
        expect_same_words(answers, expected)
    finally:
        end(page)


def detection(trial):
    trial.train("detection:smoke", "--set", "data.train=scenes:400:1:few", "--set", "data.test=scenes:8:2:few",
                "--set", "epochs=2", "--set", "stop_epoch=1")
    pictures = [*trial.pictures("detection", 4, "64-200"), HERE.parents[1] / "recipes/captioning/scenes.jpg"]
    found = 0
    for answer, right in zip(trial.demo(pictures, least=LEAST), trial.predict("detection", pictures, "--threshold", LEAST), strict=True):
        found += len(right["boxes"])
        expect_same_boxes(answer["answer"], right)
    expect(found > 0, f"the network finds nothing with a score of {LEAST}")


def published_detection(trial):
    """DEIM of size N as published, except for the image size: after so few steps all boxes have low scores."""
    settings = ["data.train=scenes:400:1:few", "data.test=scenes:4:2:few", "image_size=256", "total_batch_size=4", "max_steps=30", "epochs=1",
                "stop_epoch=0", "augment.policy=[0,0,0]", "schedule.warmup_steps=5", "optimizer.lr=0.001", "ema.decay=0.9", "ema.warmups=4"]
    trial.train("detection:deim_n", *(word for setting in settings for word in ("--set", setting)))
    pictures = trial.pictures("detection", 2, "64-200")
    expected = trial.predict("detection", pictures, "--threshold", 0)
    for answer, right in zip(trial.demo(pictures, least=0), expected, strict=True):
        expect(len(right["boxes"]) == QUERIES, f"predict has {len(right['boxes'])} boxes, not {QUERIES}")
        expect_same_boxes(answer["answer"], right)


def expect_same_boxes(said, right):
    """Boxes with equal scores may swap places."""
    expect(len(said["boxes"]) == len(right["boxes"]), f"{said} has as many boxes as {right}")
    left = list(zip(said["boxes"], said["labels"], said["scores"]))
    for box, label, score in zip(right["boxes"], right["labels"], right["scores"]):
        same = [one for one in left if one[1] == label and abs(one[2] - score) < 1e-3
                and max(abs(a - b) for a, b in zip(one[0], box)) < 1]
        expect(same, f"{said} has no {label} of {score} at {box}")
        left.remove(same[0])


def segmentation(trial):
    trial.train("segmentation:smoke", "--set", "data.train=scenes:120:1:few", "--set", "data.test=scenes:4:2:few",
                "--set", "epochs=2")
    looks = ["--set", "eval.window=64", "--set", "eval.scales=[1,1.5]", "--set", "eval.flip=true"]
    pictures = trial.pictures("segmentation", 3, "96")
    trial.predict("segmentation", pictures, "--pictures", "drawn", *looks)
    drawn = [str(trial.folder / "drawn" / picture.name) for picture in pictures]
    answers = trial.demo(pictures, *looks, drawn=drawn)
    for answer in answers:
        expect(answer["answer"] and answer["equal"] > 0.999, f"{answer} has predict's mask")
    print(f"   at least {100 * min(answer['equal'] for answer in answers):.3f} % of the pixels match predict's", flush=True)
    expect(any("," in answer["answer"]["text"] for answer in answers), "each image is of a single class")


def captioning(trial):
    trial.train("captioning:smoke", "--set", "data.train=scenes:300:1", "--set", "data.test=scenes:8:2", "--set", "epochs=4",
                "--set", "stop_epoch=3")
    pictures = trial.pictures("captioning", 5, "96")
    expect_same_words(trial.demo(pictures), trial.predict("captioning", pictures, "--set", "eval.beam_size=1"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--modules", type=pathlib.Path, required=True)
    parser.add_argument("--only", default="", help="one recipe")
    parser.add_argument("--shot", default="", help="a file for a screenshot of the live page")
    parser.add_argument("--chromium", default=shutil.which("chromium") or "")
    parser.add_argument("--node", default=shutil.which("node") or "")
    arguments = parser.parse_args()
    if not arguments.node:
        skip("node is not installed (Debian: nodejs)")
    if not arguments.chromium:
        skip("chromium is not installed (Debian: chromium)")
    if not (arguments.bin.parent / "share/lockstep/network/demo.html").exists():
        skip("share/lockstep/network is missing: the build had no npm or no network")
    for recipe in (captcha, detection, published_detection, segmentation, captioning):
        if arguments.only not in ("", recipe.__name__):
            continue
        print(f"-- {recipe.__name__}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            recipe(Trial(arguments, pathlib.Path(folder)))


if __name__ == "__main__":
    main()
