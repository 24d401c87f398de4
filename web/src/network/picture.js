// SPDX-License-Identifier: Apache-2.0
// An image as bytes, and resized with the same bits as src/data/resample.cpp, which are Pillow's.

/// Decodes a file into {width, height, channels: 3, data}. Colours are the file's raw values; alpha is dropped.
export async function decode(file) {
  const bitmap = await createImageBitmap(file, { colorSpaceConversion: 'none', premultiplyAlpha: 'none' });
  const { width, height } = bitmap;
  const canvas = new OffscreenCanvas(width, height);
  const context = canvas.getContext('2d', { willReadFrequently: true });
  context.drawImage(bitmap, 0, 0);
  bitmap.close();
  const rgba = context.getImageData(0, 0, width, height).data;
  const data = new Uint8Array(width * height * 3);
  for (let from = 0, to = 0; to < data.length; from += 4, to += 3) {
    data[to] = rgba[from];
    data[to + 1] = rgba[from + 1];
    data[to + 2] = rgba[from + 2];
  }
  return { width, height, channels: 3, data };
}

/// ITU-R 601 luma in 16-bit fixed point.
export function gray({ width, height, data }) {
  const luma = new Uint8Array(width * height);
  for (let at = 0; at < luma.length; ++at) {
    luma[at] = (data[3 * at] * 19595 + data[3 * at + 1] * 38470 + data[3 * at + 2] * 7471 + 0x8000) >> 16;
  }
  return { width, height, channels: 1, data: luma };
}

const kBits = 22;

/// For each of `out` positions along a side of `size` pixels: the first pixel that contributes, and weights in fixed
/// point.
function weightsOf(size, out) {
  const scale = size / out;
  const wide = Math.max(scale, 1);
  return Array.from({ length: out }, (_, place) => {
    const center = (place + 0.5) * scale;
    const first = Math.trunc(Math.max(center - wide + 0.5, 0));
    const last = Math.min(Math.trunc(center + wide + 0.5), size);
    const shares = [];
    let sum = 0;
    for (let at = first; at < last; ++at) {
      const share = Math.max(0, 1 - Math.abs((at - center + 0.5) / wide));
      shares.push(share);
      sum += share;
    }
    return { first, weights: Int32Array.from(shares, (share) => Math.trunc(0.5 + (share / sum) * (1 << kBits))) };
  });
}

/// Along one side: `lines` lines of positions that are `step` apart, with `apart` from one line to the next.
function alongSide(from, to, places, lines) {
  for (let line = 0; line < lines.count; ++line) {
    const start = lines.start(line);
    const target = lines.target(line);
    for (let place = 0; place < places.length; ++place) {
      const { first, weights } = places[place];
      let sum = 1 << (kBits - 1);
      for (let tap = 0; tap < weights.length; ++tap) sum += from[start + (first + tap) * lines.step] * weights[tap];
      to[target + place * lines.stepTo] = Math.min(Math.max(sum >> kBits, 0), 255);
    }
  }
}

/// The image resized, antialiased: along x first, into 8 bits, then along y.
export function resample(picture, width, height) {
  const { channels } = picture;
  let { data } = picture;
  if (width !== picture.width) {
    const wide = new Uint8Array(width * picture.height * channels);
    const row = (line) => Math.trunc(line / channels);
    alongSide(data, wide, weightsOf(picture.width, width), {
      count: picture.height * channels, step: channels, stepTo: channels,
      start: (line) => row(line) * picture.width * channels + (line % channels),
      target: (line) => row(line) * width * channels + (line % channels),
    });
    data = wide;
  }
  if (height !== picture.height) {
    const high = new Uint8Array(width * height * channels);
    const stride = width * channels;
    alongSide(data, high, weightsOf(picture.height, height), {
      count: stride, step: stride, stepTo: stride, start: (line) => line, target: (line) => line,
    });
    data = high;
  }
  return { width, height, channels, data };
}

/// Channels x height x width of floats in 0 .. 1.
export function planesOf({ width, height, channels, data }) {
  const plane = width * height;
  const values = new Float32Array(channels * plane);
  for (let channel = 0; channel < channels; ++channel) {
    for (let at = 0; at < plane; ++at) values[channel * plane + at] = data[at * channels + channel] / 255;
  }
  return { width, height, channels, values };
}

/// Planes resized linearly, with aligned corner centres: upsample_bilinear2d(align_corners=true).
export function stretched(planes, width, height) {
  if (planes.width === width && planes.height === height) return planes;
  const values = new Float32Array(planes.channels * width * height);
  const x = cornersOf(planes.width, width);
  const y = cornersOf(planes.height, height);
  for (let channel = 0, to = 0; channel < planes.channels; ++channel) {
    for (const row of y) {
      const above = (channel * planes.height + row.low) * planes.width;
      const below = (channel * planes.height + row.high) * planes.width;
      for (const { low, high, share } of x) {
        const top = planes.values[above + low] * (1 - share) + planes.values[above + high] * share;
        const bottom = planes.values[below + low] * (1 - share) + planes.values[below + high] * share;
        values[to++] = top * (1 - row.share) + bottom * row.share;
      }
    }
  }
  return { width, height, channels: planes.channels, values };
}

function cornersOf(size, out) {
  const scale = out > 1 ? (size - 1) / (out - 1) : 0;
  return Array.from({ length: out }, (_, place) => {
    const at = Math.fround(place * Math.fround(scale));
    const low = Math.min(Math.trunc(at), size - 1);
    return { low, high: Math.min(low + 1, size - 1), share: at - low };
  });
}
