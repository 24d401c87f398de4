// SPDX-License-Identifier: Apache-2.0
// A result drawn on its image: boxes with names, or the classes' colours as in
// recipes/segmentation/metrics/overlay.cpp.

const kOpacity = 0.5;
const kMost = 960; // pixels of the longer side
const inkOf = (colors, label) => colors[label % colors.length];

function put(canvas, { width, height, data }) {
  canvas.width = width;
  canvas.height = height;
  const pixels = new ImageData(width, height);
  for (let from = 0, to = 0; from < data.length; from += 3, to += 4) {
    pixels.data.set(data.subarray(from, from + 3), to);
    pixels.data[to + 3] = 255;
  }
  canvas.getContext('2d').putImageData(pixels, 0, 0);
}

/// The pixel to the right or below has a different class.
function isOutline(classes, at, { width, height }) {
  const label = classes[at];
  return (at % width < width - 1 && classes[at + 1] !== label) || (at < width * (height - 1) && classes[at + width] !== label);
}

function drawMask(canvas, picture, { classes }, { colors }) {
  const data = Uint8Array.from(picture.data);
  classes.forEach((label, at) => {
    if (label === 0) return;
    const share = isOutline(classes, at, picture) ? 1 : kOpacity;
    inkOf(colors, label).forEach((ink, channel) => {
      data[3 * at + channel] = Math.trunc((1 - share) * picture.data[3 * at + channel] + share * ink + 0.5);
    });
  });
  put(canvas, { ...picture, data });
}

function enlarged(canvas, picture) {
  const small = new OffscreenCanvas(1, 1);
  put(small, picture);
  const by = Math.max(kMost / Math.max(picture.width, picture.height), 1);
  canvas.width = Math.round(picture.width * by);
  canvas.height = Math.round(picture.height * by);
  const context = canvas.getContext('2d');
  context.imageSmoothingEnabled = by < 4;
  context.drawImage(small, 0, 0, canvas.width, canvas.height);
  return { context, by };
}

function drawBoxes(canvas, picture, { objects, guess }, { colors }) {
  const { context, by } = enlarged(canvas, picture);
  const line = Math.max(canvas.width, canvas.height) / 320;
  context.font = `600 ${7 * line}px system-ui, "DejaVu Sans", sans-serif`;
  context.textBaseline = 'bottom';
  for (const one of guess ? [guess] : objects.toReversed()) {
    const [left, top, right, bottom] = one.box.map((side) => side * by);
    const [r, g, b] = inkOf(colors, one.label);
    context.lineWidth = guess ? line / 2 : 1.5 * line;
    context.strokeStyle = context.fillStyle = `rgb(${r} ${g} ${b})`;
    context.strokeRect(left, top, right - left, bottom - top);
    const words = `${one.name}${guess ? '?' : ''} ${one.score.toFixed(2)}`;
    const height = 9 * line;
    const width = context.measureText(words).width + 4 * line;
    const y = Math.max(top, height);
    const x = Math.min(Math.max(left - line / 2, 0), canvas.width - width);
    context.fillRect(x, y - height, width, height);
    context.fillStyle = 0.299 * r + 0.587 * g + 0.114 * b > 140 ? '#000' : '#fff';
    context.fillText(words, x + 2 * line, y - line / 2);
  }
}

export function draw(canvas, picture, answer, page) {
  if (answer.classes) drawMask(canvas, picture, answer, page);
  else if (answer.objects) drawBoxes(canvas, picture, answer, page);
  else put(canvas, picture);
  canvas.classList.toggle('small', canvas.width < 240);
}
