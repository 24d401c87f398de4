# SPDX-License-Identifier: Apache-2.0
"""Writes captioning_scores.json next to this file: BLEU, ROUGE-L, exact METEOR, CIDEr and CIDEr-D of random captions,
computed from the papers' formulas in the most direct way, with only Python's standard library.

BLEU: Papineni et al. 2002 (with 1e-15 and 1e-9 against empty counts, as in COCO's evaluation), ROUGE-L: Lin 2004 (beta 1.2),
METEOR: Banerjee and Lavie 2005 (equal words only; tries all alignments), CIDEr: Vedantam et al. 2015.
Example: python3 tests/recipes/golden/captioning_scores.py
"""
import collections
import functools
import json
import math
import pathlib
import random


def ngrams(words, n):
    return [tuple(words[i:i + n]) for i in range(len(words) - n + 1)]


def bleu(images):
    """[BLEU-1 .. BLEU-4] of (hypothesis, references) pairs."""
    length = sum(len(hypothesis) for hypothesis, _ in images)
    wanted = sum(min((abs(len(r) - len(hypothesis)), len(r)) for r in references)[1]
                 for hypothesis, references in images)
    ratio = (length + 1e-15) / (wanted + 1e-9)
    precisions = []
    for n in range(1, 5):
        matched = there = 0
        for hypothesis, references in images:
            for ngram in set(ngrams(hypothesis, n)):
                most = max(ngrams(r, n).count(ngram) for r in references)
                matched += min(ngrams(hypothesis, n).count(ngram), most)
            there += len(ngrams(hypothesis, n))
        precisions.append((matched + 1e-15) / (there + 1e-9))
    penalty = math.exp(1 - 1 / ratio) if ratio < 1 else 1.0
    return [penalty * math.prod(precisions[:n]) ** (1 / n) for n in range(1, 5)]


def rouge_l(hypothesis, references):
    @functools.lru_cache(None)
    def common(one, other):
        if not one or not other:
            return 0
        if one[0] == other[0]:
            return 1 + common(one[1:], other[1:])
        return max(common(one[1:], other), common(one, other[1:]))

    lengths = [(common(tuple(hypothesis), tuple(r)), len(r)) for r in references]
    precision = max(c / len(hypothesis) for c, _ in lengths)
    recall = max(c / n for c, n in lengths)
    if precision == 0:
        return 0.0
    return (1 + 1.2 ** 2) * precision * recall / (recall + 1.2 ** 2 * precision)


def alignments(hypothesis, reference):
    """All ways to assign each word of the hypothesis a place in the reference, or None."""
    if not hypothesis:
        yield []
        return
    for rest in alignments(hypothesis[:-1], reference):
        yield rest + [None]
        for i, word in enumerate(reference):
            if word == hypothesis[-1] and i not in rest:
                yield rest + [i]


def meteor_counts(hypothesis, reference):
    best = None
    for places in alignments(hypothesis, reference):
        matches = sum(p is not None for p in places)
        chunks = sum(p is not None and (i == 0 or places[i - 1] is None or places[i - 1] + 1 != p)
                     for i, p in enumerate(places))
        if best is None or (-matches, chunks) < best:
            best = (-matches, chunks)
    return -best[0], best[1], len(hypothesis), len(reference)


def meteor_score(matches, chunks, words, reference):
    if matches == 0:
        return 0.0
    precision, recall = matches / words, matches / reference
    return 10 * precision * recall / (recall + 9 * precision) * (1 - 0.5 * (chunks / matches) ** 3)


def meteor(images):
    totals = [0, 0, 0, 0]
    for hypothesis, references in images:
        counts = [meteor_counts(hypothesis, r) for r in references]
        scores = [meteor_score(*c) for c in counts]
        best = counts[scores.index(max(scores))]
        totals = [t + b for t, b in zip(totals, best)]
    return meteor_score(*totals)


def document_frequencies(images):
    frequencies = collections.Counter()
    for references in images:
        frequencies.update({g for r in references for n in range(1, 5) for g in ngrams(r, n)})
    return frequencies, len(images)


def vector(words, n, frequencies, count):
    return {g: c * (math.log(count) - math.log(max(1, frequencies[g])))
            for g, c in collections.Counter(ngrams(words, n)).items()}


def cider(hypothesis, references, known, clipped, sigma=6.0):
    total = 0.0
    for r in references:
        for n in range(1, 5):
            one, other = vector(hypothesis, n, *known), vector(r, n, *known)
            norm = math.sqrt(sum(v * v for v in one.values())) * math.sqrt(sum(v * v for v in other.values()))
            if norm == 0:
                continue
            if clipped:
                product = sum(min(v, other.get(g, 0.0)) * other.get(g, 0.0) for g, v in one.items())
                distance = max(len(hypothesis) - 1, 0) - max(len(r) - 1, 0)
                total += product / norm * math.exp(-distance ** 2 / (2 * sigma ** 2))
            else:
                total += sum(v * other.get(g, 0.0) for g, v in one.items()) / norm
    return 10 * total / (4 * len(references))


def make_corpus(rng, vocabulary, ids, longest):
    """Captions about the same few objects, so that n-grams of all orders match; a few repeat themselves."""
    def caption(topic, noise):
        words = []
        for _ in range(rng.randint(1, longest)):
            step = rng.random()
            if words and step < 0.15:
                words.append(words[-1])
            elif step < noise:
                words.append(rng.randrange(vocabulary))
            else:
                words.append(topic[len(words) % len(topic)])
        return [ids(word) for word in words]

    images = []
    for _ in range(rng.randint(1, 9)):
        topic = [rng.randrange(vocabulary) for _ in range(rng.randint(3, 8))]
        references = [caption(topic, 0.5) for _ in range(rng.randint(1, 5))]
        images.append((caption(topic, 0.6), references))
    return images


def scores(images, known):
    return {
        "bleu": bleu(images),
        "rouge_l": sum(rouge_l(*image) for image in images) / len(images),
        "meteor_exact": meteor(images),
        "cider": [cider(*image, known, False) for image in images],
        "cider_d": [cider(*image, known, True) for image in images],
    }


def main():
    rng = random.Random(11)
    cases = []
    for number in range(36):
        # Every third case has ids that need more than 16 bits.
        ids = (lambda word: word * 70001 + 3) if number % 3 == 2 else (lambda word: word)
        images = make_corpus(rng, rng.choice([4, 12, 40]), ids, 7 if number % 2 else 9)
        others = [references for _, references in make_corpus(rng, 12, ids, 9)]
        case = {"hypotheses": [h for h, _ in images], "references": [r for _, r in images], "others": others,
                "own": scores(images, document_frequencies([r for _, r in images]))}
        foreign = scores(images, document_frequencies(others))
        case["foreign"] = {"cider": foreign["cider"], "cider_d": foreign["cider_d"]}
        cases.append(case)
    text = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    pathlib.Path(__file__).with_suffix(".json").write_text("[\n" + text + "\n]\n")


if __name__ == "__main__":
    main()
