// SPDX-License-Identifier: Apache-2.0
// From an image to a result as `lockstep predict` returns it. The file's page.json says which kind it is.
import { gray, planesOf, resample } from './picture.js';
import { sharesOf } from './windows.js';

function fitted(network, picture) {
  const { width, height, channels } = network.shape;
  const seen = channels === 1 ? gray(picture) : picture;
  if (seen.width === width && seen.height === height) return planesOf(seen);
  if (network.page.picture === 'as_is') {
    throw new Error(`the image is ${seen.width} x ${seen.height} pixels, but this network takes ${width} x ${height}: resize the image`);
  }
  return planesOf(resample(seen, width, height));
}

/// The most likely class at each position, and its probability: logits [places, classes].
function likeliest(logits, places, classes) {
  return Array.from({ length: places }, (_, place) => {
    const row = logits.subarray(place * classes, (place + 1) * classes);
    const best = row.reduce((at, value, i) => (value > row[at] ? i : at), 0);
    const sum = row.reduce((total, value) => total + Math.exp(value - row[best]), 0);
    return { best, share: 1 / sum };
  });
}

/// A string is as certain as its least certain character.
async function text(network, picture) {
  const { logits } = await network.run(fitted(network, picture));
  const read = likeliest(logits.data, logits.dims[1], logits.dims[2]);
  return { text: read.map(({ best }) => network.names[best]).join(''), confidence: Math.min(...read.map(({ share }) => share)) };
}

const between = (value, low, high) => Math.min(Math.max(value, low), high);

/// The boxes with at least this score; if there are none, the best guess.
export function chosenOf({ all }, threshold) {
  const objects = all.filter(({ score }) => score >= threshold);
  const words = objects.map((one) => `${one.name} ${one.score.toFixed(2)}`).join(', ');
  return { text: words || 'nothing found', all, objects, guess: objects.length ? null : all[0] ?? null };
}

async function boxes(network, picture) {
  const { width, height } = picture;
  const found = await network.run(fitted(network, picture), { orig_target_sizes: [width, height] });
  const all = [];
  found.scores.data.forEach((score, i) => {
    const [left, top, right, bottom] = found.boxes.data.subarray(4 * i, 4 * i + 4);
    const box = [between(left, 0, width), between(top, 0, height), between(right, 0, width), between(bottom, 0, height)];
    const label = Number(found.labels.data[i]);
    all.push({ box, score, label, name: network.names[label] ?? `class ${label}` });
  });
  all.sort((a, b) => b.score - a.score);
  return chosenOf({ all }, network.page.threshold);
}

/// The most likely class of each pixel, and each class's share of the image.
async function mask(network, picture) {
  const { shares, note } = await sharesOf(network, planesOf(picture));
  const pixels = picture.width * picture.height;
  const classes = new Uint8Array(pixels);
  const counts = network.names.map(() => 0);
  let sure = 0;
  for (let at = 0; at < pixels; ++at) {
    let best = 0;
    for (let c = 1; c < counts.length; ++c) if (shares.values[c * pixels + at] > shares.values[best * pixels + at]) best = c;
    classes[at] = best;
    counts[best] += 1;
    sure += shares.values[best * pixels + at];
  }
  const parts = counts.map((count, c) => ({ name: network.names[c], part: count / pixels })).filter(({ part }) => part > 0);
  parts.sort((a, b) => b.part - a.part);
  return { text: parts.map(({ name, part }) => `${name} ${(100 * part).toFixed(1)} %`).join(', '), classes, note,
    confidence: sure / pixels };
}

/// The words' mean probability is geometric; an end chosen by the network counts as a word.
async function words(network, picture) {
  const said = await network.run(fitted(network, picture));
  const ids = Array.from(said.words.data, Number);
  const count = ids.indexOf(0);
  const of = Array.from(said.log_probs.data).slice(0, count + 1);
  return { text: ids.slice(0, count).map((id) => network.names[id]).join(' '),
    confidence: Math.exp(of.reduce((sum, value) => sum + value, 0) / of.length) };
}

const kKinds = { text, boxes, mask, words };

export const answer = (network, picture) => kKinds[network.page.answer](network, picture);
