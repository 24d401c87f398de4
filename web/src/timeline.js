// SPDX-License-Identifier: Apache-2.0
// Ranks as lanes over time: sections above, collectives with their buckets below, from the flight rings.
import { byId, make, show } from './dom.js';
import * as format from './format.js';
import * as server from './server.js';
import { chosen, css, on } from './state.js';

const kLane = 26;
const kLeft = 44;
const kTop = 20;
const kEvery = 1000;
const kColors = {
  forward: '--forward', backward: '--backward', optimizer: '--optimizer', 'DataLoader::next': '--data',
  evaluate: '--evaluate', save: '--save', setup: '--other',
};

const canvas = byId('lanes');
let data = null;
let view = null; // {low, high} in ms of data; null: all of it
let asked = 0;
let isBusy = false;
let isVisible = false;
let isQueued = false;
let drag = null;
let wide = 0; // of the canvas; reading it from the browser forces a layout

function colorName(name, kind) {
  if (kind === 2) return '--bad';
  if (kind === 1) return '--communication';
  return kColors[name] ?? '--other';
}

const range = () => view ?? { low: 0, high: data.end };
const width = () => wide - kLeft;
const toX = (ms) => kLeft + ((ms - range().low) / (range().high - range().low)) * width();
const toMs = (x) => range().low + ((x - kLeft) / width()) * (range().high - range().low);

function size() {
  const ratio = window.devicePixelRatio || 1;
  wide = canvas.clientWidth;
  const height = kTop + Math.max(data?.ranks.length ?? 0, 1) * kLane;
  if (canvas.style.height !== `${height}px`) canvas.style.height = `${height}px`;
  const pixels = [Math.round(wide * ratio), Math.round(height * ratio)];
  if (canvas.width !== pixels[0]) canvas.width = pixels[0];
  if (canvas.height !== pixels[1]) canvas.height = pixels[1];
  return ratio;
}

// Bars that fall on the same pixel as the one before are skipped: it looks the same and takes a tenth of the time.
function drawLane(pen, rank, y, colors) {
  const { low, high } = range();
  const scale = width() / (high - low);
  const last = [-1, -1, -1];
  let color = '';
  for (const [begin, end, name, kind, , , , depth] of rank.spans) {
    if (end < low || begin > high) continue;
    const row = kind > 0 ? 2 : Math.min(depth, 1);
    const x = kLeft + Math.max(begin - low, 0) * scale;
    const e = Math.min(kLeft + (end - low) * scale, wide);
    if (e <= last[row] + 0.3) continue;
    last[row] = Math.max(e, x + 0.7);
    const next = colors[name * 3 + kind];
    if (next !== color) pen.fillStyle = color = next;
    const inset = 3 * Math.min(depth, 2);
    if (kind > 0) pen.fillRect(x, y + 16, Math.max(e - x, 0.7), 6);
    else pen.fillRect(x, y + 2 + inset, Math.max(e - x, 0.7), 13 - inset);
  }
}

function drawScale(pen, top, bottom) {
  const { low, high } = range();
  const target = (high - low) / Math.max(width() / 110, 1);
  const unit = 10 ** Math.floor(Math.log10(target));
  const step = [1, 2, 5, 10].map((n) => n * unit).find((each) => each >= target);
  const [grid, faint] = [css('--grid'), css('--faint')];
  for (let at = Math.ceil(low / step) * step; at <= high; at += step) {
    const x = toX(at);
    pen.fillStyle = grid;
    pen.fillRect(Math.round(x), Math.max(top, kTop - 4), 1, bottom - top);
    pen.fillStyle = faint;
    pen.fillText(at >= data.end ? '0' : `−${format.duration((data.end - at) / 1000)}`, x + 3, 12);
  }
}

// Only visible lanes are drawn.
function draw() {
  isQueued = false;
  const ratio = size();
  const top = canvas.parentElement.scrollTop;
  const bottom = top + canvas.parentElement.clientHeight;
  const pen = canvas.getContext('2d');
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, top, wide, bottom - top);
  if (!data) return;
  pen.font = '11px system-ui, sans-serif';
  drawScale(pen, top, bottom);
  const colors = data.names.flatMap((name) => [0, 1, 2].map((kind) => css(colorName(name, kind))));
  const [faint, lane] = [css('--faint'), css('--lane')];
  const first = Math.max(0, Math.floor((top - kTop) / kLane));
  for (let i = first; i < data.ranks.length && kTop + i * kLane < bottom; ++i) {
    const y = kTop + i * kLane;
    pen.fillStyle = faint;
    pen.fillText(`rank ${data.ranks[i].rank}`, 0, y + 14);
    pen.fillStyle = lane;
    pen.fillRect(kLeft, y + 2, width(), 20);
    drawLane(pen, data.ranks[i], y, colors);
  }
}

function queue() {
  if (isQueued) return;
  isQueued = true;
  requestAnimationFrame(draw);
}

function drawLegend() {
  const seen = new Map();
  for (const rank of data.ranks) for (const span of rank.spans) seen.set(`${span[2]}/${span[3]}`, [data.names[span[2]], span[3]]);
  const items = [...seen.values()].sort((a, b) => a[1] - b[1] || a[0].localeCompare(b[0]));
  show(
    byId('legend'),
    ...items.map(([name, kind]) => make('li', {}, make('span', { class: `dot c${colorName(name, kind).slice(1)}` }), name)),
  );
}

function summary() {
  const spans = data.ranks.reduce((sum, rank) => sum + rank.spans.length, 0);
  return `${data.ranks.length} ranks, ${spans} sections and collectives in the last ${format.duration(data.end / 1000)}`;
}

async function ask() {
  if (isBusy || !isVisible || document.hidden || byId('hold').checked) return;
  isBusy = true;
  asked = performance.now();
  try {
    data = await server.timeline(chosen().id, byId('span').value);
    canvas.setAttribute('aria-label', summary());
    if (data.ranks.length === 0) byId('lane-tip').textContent = 'No rank of this run has a flight ring on this machine.';
    drawLegend();
    queue();
  } catch {
    // the link status shows that the server does not respond
  } finally {
    isBusy = false;
  }
}

function spanAt(event) {
  const rank = data?.ranks[Math.floor((event.offsetY - kTop) / kLane)];
  if (!rank) return null;
  const isCall = (event.offsetY - kTop) % kLane >= 15;
  const at = toMs(event.offsetX);
  const slack = (range().high - range().low) / width();
  const found = rank.spans.filter(([begin, end, , kind]) => kind > 0 === isCall && begin - slack <= at && at <= end + slack);
  return found.length ? [rank.rank, found.reduce((a, b) => (b[1] - b[0] < a[1] - a[0] ? b : a))] : null;
}

function sayTip(event) {
  const found = spanAt(event);
  if (!found) return;
  const [rank, [begin, end, name, kind, step, bytes, bucket]] = found;
  const words = [`rank ${rank}`, data.names[name], format.duration((end - begin) / 1000)];
  if (step >= 0) words.push(`step ${format.number(step)}`);
  if (kind > 0) words.push(format.bytes(bytes));
  if (bucket >= 0) words.push(`bucket ${bucket + 1}`);
  if (kind === 2) words.push('failed');
  byId('lane-tip').textContent = words.join(' · ');
}

function zoomAt(at, factor) {
  const { low, high } = range();
  const next = { low: Math.max(0, at - (at - low) * factor), high: Math.min(data.end, at + (high - at) * factor) };
  view = next.high - next.low >= data.end * 0.999 ? null : next;
  if (next.high - next.low > 0.01) queue();
}

function pan(ms) {
  if (!view) return;
  const by = Math.max(-view.low, Math.min(data.end - view.high, ms));
  view = { low: view.low + by, high: view.high + by };
  queue();
}

canvas.parentElement.addEventListener('scroll', queue, { passive: true });
canvas.addEventListener('wheel', (event) => {
  if (!data || event.shiftKey) return;
  event.preventDefault();
  zoomAt(toMs(event.offsetX), event.deltaY > 0 ? 1.25 : 0.8);
}, { passive: false });
canvas.addEventListener('pointerdown', (event) => { drag = event.offsetX; });
canvas.addEventListener('pointermove', (event) => {
  if (!data) return;
  if (drag != null && event.buttons) {
    pan(toMs(drag) - toMs(event.offsetX));
    drag = event.offsetX;
  } else {
    drag = null;
    sayTip(event);
  }
});
canvas.parentElement.addEventListener('keydown', (event) => {
  if (!data || event.ctrlKey || event.metaKey) return;
  const { low, high } = range();
  const keys = {
    '+': () => zoomAt((low + high) / 2, 0.5), '=': () => zoomAt((low + high) / 2, 0.5), '-': () => zoomAt((low + high) / 2, 2),
    ArrowLeft: () => pan((low - high) / 4), ArrowRight: () => pan((high - low) / 4), 0: () => { view = null; queue(); },
  };
  if (!(event.key in keys)) return;
  event.preventDefault();
  keys[event.key]();
});
byId('span').addEventListener('change', () => {
  view = null;
  ask();
});
new IntersectionObserver((entries) => {
  isVisible = entries.at(-1).isIntersecting;
  if (isVisible && chosen()) ask();
}).observe(canvas);
new ResizeObserver(queue).observe(canvas.parentElement);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', queue);
on('moment', () => {
  const isLive = chosen().live?.ranks.some((rank) => rank.launched);
  if (!data || (isLive && performance.now() - asked > kEvery)) ask();
});
on('runs', () => {
  view = null;
  data = null;
  ask();
});
