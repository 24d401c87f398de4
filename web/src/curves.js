// SPDX-License-Identifier: Apache-2.0
// Curves of all shown runs on top of each other. The server sends at most a few thousand points of the visible range,
// smoothed over all points; zooming requests them again.
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { byId, empty, make } from './dom.js';
import * as format from './format.js';
import * as server from './server.js';
import { colorOf, css, on, page, shown, tell } from './state.js';

const kPoints = 1600;
const kRefreshEvery = 2000;
const kLabels = {
  loss: 'loss', lr: 'learning rate', images_per_s: 'images/s', 'epoch.loss': 'epoch loss',
  'epoch.data_wait': 'share of time waiting for data', 'epoch.memory_peak': 'peak memory',
};
// For these, the per-step curve shows the same.
const kHidden = new Set(['epoch.lr', 'epoch.images_per_s']);

// Tick distances: there is no step 2.5.
const kWholeSteps = Array.from({ length: 16 }, (_, power) => [1, 2, 5].map((factor) => factor * 10 ** power)).flat();

const charts = new Map(); // name -> {box, plot, value, data, busy, again}
const view = { low: null, high: null }; // in units of the axis; null: the whole run
let refreshed = 0;
let drawnPoints = '';

const axis = () => byId('axis').value;
const weight = () => Number(byId('smooth').value);
// For the others each point counts.
const isSmoothed = (name) => name === 'loss' || name === 'images_per_s' || isPart(name);
const isBytes = (name) => name.endsWith('memory_peak');
const isPart = (name) => name.startsWith('losses.');
const partsShown = () => byId('loss-parts').open;
const holderOf = (name) => byId(isPart(name) ? 'part-charts' : 'charts');
const label = (name) => kLabels[name] ?? name.replace(/^metric\./, '').replace(/^losses\./, '').replace(/^epoch\./, '');

function names() {
  const all = new Set();
  for (const run of shown()) for (const name of run.state?.curves ?? []) if (!kHidden.has(name)) all.add(name);
  return [...all];
}

// A window in steps for the server, wider than the view, so that panning has something to show. Time is zoomed only in
// the page: the server's chunks are ranges of steps.
function windowOf() {
  if (view.low == null || axis() === 'time') return {};
  const margin = (view.high - view.low) / 4;
  return { low: Math.floor(view.low - margin), high: Math.ceil(view.high + margin) };
}

function options(name, series) {
  const grid = { stroke: css('--grid'), width: 1 };
  const text = { stroke: css('--faint'), font: '11px system-ui, sans-serif', grid, ticks: { ...grid, size: 4 } };
  return {
    width: 300,
    height: 210,
    padding: [10, 10, 0, 0],
    legend: { show: false },
    cursor: { sync: { key: 'steps', setSeries: false }, drag: { x: true, y: false, setScale: false }, points: { size: 6 } },
    scales: { x: { time: false }, y: byId('log').checked ? { distr: 3, range: logRangeOf } : { range: rangeOf } },
    axes: [
      { ...text, size: 30, ...(axis() === 'time' ? {} : { incrs: kWholeSteps }), values: (_, ticks) => ticks.map((t) => (axis() === 'time' ? format.duration(t) : compact(t))) },
      { ...text, size: 58, values: (_, ticks) => ticks.map((t) => (t == null ? '' : isBytes(name) ? format.bytes(t) : compact(t))) },
    ],
    series: [{}, ...series],
    hooks: { setSelect: [zoomToSelection], setCursor: [(plot) => sayValue(name, plot)] },
  };
}

// A curve that does not change is drawn in the middle; one that has not yet left 0 at the bottom.
function rangeOf(_, low, high) {
  if (low == null || (low === 0 && high === 0)) return [0, 1];
  if (low === high) return [low - (Math.abs(low) || 1) / 2, high + (Math.abs(high) || 1) / 2];
  return uPlot.rangeNum(low, high, 0.08, true);
}

function logRangeOf(_, low, high) {
  return low > 0 ? uPlot.rangeLog(low, high, 10, false) : [0.1, 1];
}

// A logarithmic scale cannot show other values.
const positive = (values) => values.map((value) => (value > 0 ? value : null));

function compact(value) {
  const size = Math.abs(value);
  for (const [unit, letter] of [[1e9, 'G'], [1e6, 'M'], [1e3, 'k']]) {
    if (size >= unit) return `${Number((value / unit).toPrecision(4))}${letter}`;
  }
  if (value !== 0 && size < 1e-3) return value.toExponential(0);
  return String(Number(value.toPrecision(4)));
}

function zoomToSelection(plot) {
  if (plot.select.width < 4) return;
  const low = plot.posToVal(plot.select.left, 'x');
  const high = plot.posToVal(plot.select.left + plot.select.width, 'x');
  plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
  zoom(low, high);
}

function extent() {
  let low = Infinity;
  let high = -Infinity;
  for (const run of shown()) {
    const all = run.extent;
    if (!all) continue;
    low = Math.min(low, all[0]);
    high = Math.max(high, all[1]);
  }
  return low < high ? [low, high] : [0, 1];
}

export function zoom(low, high) {
  const [first, last] = extent();
  if (low != null && high - low >= (last - first) * 0.999) low = high = null;
  if (low != null && !(high > low)) return;
  view.low = low;
  view.high = high;
  byId('reset').disabled = low == null;
  for (const chart of charts.values()) setScale(chart);
  clearTimeout(zoom.timer);
  zoom.timer = setTimeout(fetchAll, 120);
}

function setScale(chart) {
  if (!chart.plot) return;
  const [low, high] = view.low == null ? [chart.plot.data[0][0], chart.plot.data[0].at(-1)] : [view.low, view.high];
  // A single point is shown from the start.
  if (low != null) chart.plot.setScale('x', high > low ? { min: low, max: high } : { min: Math.min(0, low), max: Math.max(low, 1) });
}

function onKey(event) {
  const [first, last] = extent();
  const low = view.low ?? first;
  const high = view.high ?? last;
  const width = high - low;
  const moves = {
    '+': [low + width / 4, high - width / 4], '=': [low + width / 4, high - width / 4],
    '-': [Math.max(first, low - width / 2), Math.min(last, high + width / 2)],
    ArrowLeft: [Math.max(first, low - width / 4), Math.max(first + width, high - width / 4)],
    ArrowRight: [Math.min(last - width, low + width / 4), Math.min(last, high + width / 4)], 0: [null, null],
  };
  if (!(event.key in moves) || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  zoom(...moves[event.key]);
}

function newChart(name) {
  const value = make('span', { class: 'value' });
  const holder = make('div', { class: 'plot' });
  const box = make(
    'figure',
    { tabindex: '0', 'data-curve': name, 'aria-label': label(name), onkeydown: onKey, ondblclick: () => zoom(null, null) },
    make('figcaption', {}, make('span', {}, label(name)), value),
    holder,
  );
  const chart = { name, box, holder, value, plot: null };
  charts.set(name, chart);
  return chart;
}

const xs = (part) => (axis() === 'time' ? part.seconds : part.steps);

function series(color, isRaw) {
  return { stroke: isRaw ? `${color}55` : color, width: isRaw ? 1 : 1.6, spanGaps: true, points: isRaw ? { show: false } : { size: 5 } };
}

function sayValue(name, plot) {
  const chart = charts.get(name);
  if (!chart) return;
  const at = plot.cursor.idx;
  const words = chart.last.map(({ run, steps, values }) => {
    if (at == null || plot.cursor.left < 0) return [run, values.at(-1), steps.at(-1)];
    const x = plot.data[0][at];
    const all = xs({ seconds: chart.seconds.get(run.id), steps });
    let near = all.findIndex((each) => each >= x);
    if (near < 0) near = all.length - 1;
    return [run, values[near], steps[near]];
  });
  chart.value.replaceChildren(
    ...words.slice(0, 4).map(([run, value, step]) =>
      make('span', { class: `swatch run-${(run.id % 7) + 1}`, 'data-run': run.name, 'data-step': step, 'data-value': value,
                     title: `${run.name}: ${value} at step ${step}` }, isBytes(name) ? format.bytes(value) : format.number(value)),
    ),
  );
}

async function fetchChart(chart) {
  if (chart.busy) {
    chart.again = true;
    return;
  }
  chart.busy = true;
  try {
    const runs = shown().filter((run) => run.state?.curves?.includes(chart.name));
    const parts = await Promise.all(
      runs.map((run) => server.curve(run.id, { name: chart.name, points: kPoints, smooth: isSmoothed(chart.name) ? weight() : 0, ...windowOf() })),
    );
    draw(chart, runs, parts);
  } catch {
    // the link status shows that the server does not respond
  } finally {
    chart.busy = false;
    if (chart.again) {
      chart.again = false;
      fetchChart(chart);
    }
  }
}

function draw(chart, runs, parts) {
  const tables = [];
  const lines = [];
  const drawn = byId('log').checked ? positive : (values) => values;
  chart.last = [];
  chart.seconds = new Map();
  runs.forEach((run, i) => {
    const { raw, smooth } = parts[i];
    const usable = raw.steps.length > 0 && xs(raw)[0] != null;
    if (!usable) return;
    if (view.low == null && chart.name === 'loss') run.extent = [xs(raw)[0], xs(raw).at(-1)];
    if (smooth) {
      tables.push([xs(raw), drawn(raw.values)]);
      lines.push(series(colorOf(run.id), true));
    }
    tables.push([xs(smooth ?? raw), drawn((smooth ?? raw).values)]);
    lines.push(series(colorOf(run.id), false));
    chart.last.push({ run, steps: raw.steps, values: raw.values });
    chart.seconds.set(run.id, raw.seconds);
    if (view.low == null && ['loss', 'images_per_s'].includes(chart.name)) {
      run.latest = { ...run.latest, [chart.name]: raw.values.at(-1) };
    }
  });
  chart.box.hidden = tables.length === 0;
  if (tables.length === 0) return;
  const key = JSON.stringify([lines, byId('log').checked, axis()]);
  const data = tables.length === 1 ? tables[0] : uPlot.join(tables);
  if (chart.plot && chart.key === key) {
    chart.plot.setData(data, false);
  } else {
    chart.plot?.destroy();
    chart.key = key;
    chart.plot = new uPlot(options(chart.name, lines), data, chart.holder);
    resize(chart);
  }
  setScale(chart);
  if (!(chart.plot.cursor.left >= 0)) sayValue(chart.name, chart.plot);
  tell('latest');
}

function resize(chart) {
  const width = chart.holder.clientWidth;
  if (chart.plot && width > 0 && width !== chart.plot.width) chart.plot.setSize({ width, height: 210 });
}

export function fetchAll() {
  const wanted = names();
  for (const [name, chart] of charts) {
    if (wanted.includes(name)) continue;
    chart.plot?.destroy();
    chart.box.remove();
    charts.delete(name);
  }
  byId('charts').querySelector('.empty')?.remove();
  if (wanted.length === 0) byId('charts').append(empty('No step has been logged yet.'));
  byId('loss-parts').hidden = !wanted.some(isPart);
  byId('loss-parts').querySelector('summary').textContent = `parts of the loss (${wanted.filter(isPart).length})`;
  const order = wanted.filter((name) => !isPart(name) || partsShown());
  for (const name of order) place(charts.get(name) ?? newChart(name), order);
  for (const name of order) fetchChart(charts.get(name));
}

// Metrics are inserted before the charts that existed when the first evaluation arrived. A chart already in position is
// not moved: it may have the focus.
function place(chart, order) {
  const before = order.slice(order.indexOf(chart.name) + 1).map((name) => charts.get(name)?.box);
  const holder = holderOf(chart.name);
  const next = before.find((box) => box?.parentNode === holder) ?? null;
  if (chart.box.parentNode !== holder) holder.insertBefore(chart.box, next);
}

function refresh() {
  const points = JSON.stringify(page.runs.map((run) => [run.live?.log.points, run.live?.log.read]));
  if (points === drawnPoints || performance.now() - refreshed < kRefreshEvery || document.hidden) return;
  refreshed = performance.now();
  drawnPoints = points;
  fetchAll();
}

function redraw() {
  for (const chart of charts.values()) chart.key = '';
  fetchAll();
}

byId('axis').addEventListener('change', () => {
  zoom(null, null);
  redraw();
});
byId('log').addEventListener('change', redraw);
byId('loss-parts').addEventListener('toggle', fetchAll);
byId('reset').addEventListener('click', () => zoom(null, null));
byId('smooth').addEventListener('input', () => {
  byId('smooth-value').textContent = weight().toFixed(2);
  fetchAll();
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
const observer = new ResizeObserver(() => charts.forEach(resize));
for (const id of ['charts', 'part-charts']) observer.observe(byId(id));
on('runs', fetchAll);
on('state', () => {
  if (names().some((name) => !charts.has(name) && (!isPart(name) || partsShown()))) fetchAll();
});
on('moment', refresh);
