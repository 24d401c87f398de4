// SPDX-License-Identifier: Apache-2.0
// How a segmenter processes an image of any size, as in recipes/segmentation/model/windows.cpp: the mean over scales of
// the mean over windows. A side shorter than a window's is stretched to it, since the file's network takes only one
// size.
import { stretched } from './picture.js';

function startsOf(length, window, overlap) {
  if (length <= window) return [0];
  const stride = Math.max(Math.floor(window * (1 - overlap)), 1);
  const gaps = Math.ceil((length - window) / stride);
  return Array.from({ length: gaps + 1 }, (_, i) => Math.trunc(((length - window) * i) / gaps));
}

/// Adds rows of one part of some planes to the same part of others.
function add(from, to, part, flip) {
  for (let channel = 0; channel < to.channels; ++channel) {
    for (let y = 0; y < part.height; ++y) {
      const source = (channel * from.height + part.fromY + y) * from.width + part.fromX;
      const target = (channel * to.height + part.toY + y) * to.width + part.toX;
      for (let x = 0; x < part.width; ++x) to.values[target + x] += from.values[source + (flip ? part.width - 1 - x : x)];
    }
  }
}

const empty = (channels, width, height) => ({ channels, width, height, values: new Float32Array(channels * width * height) });

async function lookAt(network, view, place, sum, flip) {
  const { width, height, channels } = network.shape;
  const seen = empty(channels, width, height);
  add(view, seen, { width, height, fromX: place.x, fromY: place.y, toX: 0, toY: 0 }, flip);
  const { shares } = await network.run(seen);
  add({ channels: sum.channels, width, height, values: shares.data }, sum,
    { width, height, fromX: 0, fromY: 0, toX: place.x, toY: place.y }, flip);
}

async function throughWindows(network, view) {
  const { width, height } = network.shape;
  const { overlap, flip } = network.page.windows;
  const sum = empty(network.names.length, view.width, view.height);
  const seen = empty(1, view.width, view.height);
  const one = { channels: 1, width, height, values: new Float32Array(width * height).fill(1) };
  for (const y of startsOf(view.height, height, overlap)) {
    for (const x of startsOf(view.width, width, overlap)) {
      for (const mirrored of flip ? [false, true] : [false]) {
        await lookAt(network, view, { x, y }, sum, mirrored);
        add(one, seen, { width, height, fromX: 0, fromY: 0, toX: x, toY: y }, false);
      }
    }
  }
  const plane = view.width * view.height;
  for (let at = 0; at < sum.values.length; ++at) sum.values[at] /= seen.values[at % plane];
  return sum;
}

/// The class probabilities for each pixel, and a note if `lockstep predict` processes the image differently.
export async function sharesOf(network, picture) {
  const { scales, base_size: base, whole } = network.page.windows;
  const { width, height } = network.shape;
  const by = base === 0 ? 1 : base / Math.max(picture.width, picture.height);
  const sum = empty(network.names.length, picture.width, picture.height);
  let note = '';
  for (const scale of scales) {
    const size = [picture.width, picture.height].map((side) => Math.max(Math.round(side * by * scale), 1));
    const fits = size[0] >= width && size[1] >= height && !(whole && (size[0] > width || size[1] > height));
    if (!fits) note = `This network takes ${width} x ${height} pixels at once; lockstep predict processes this image differently.`;
    const view = stretched(picture, Math.max(size[0], width), Math.max(size[1], height));
    const shares = stretched(await throughWindows(network, view), picture.width, picture.height);
    for (let at = 0; at < sum.values.length; ++at) sum.values[at] += shares.values[at] / scales.length;
  }
  return { shares: sum, note };
}
