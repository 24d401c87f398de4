// SPDX-License-Identifier: Apache-2.0
// The activity of this server's machine, and its ranks' memory, with the last few minutes as a line.
import { byId, make, show } from './dom.js';
import * as format from './format.js';
import { chosen, on, page } from './state.js';

const kKept = 240;
const kEvery = 1000;
const history = { cpu: [], memory: [], gpu: [], ranks: [] };
let last = null;

function push(name, share) {
  history[name].push(Math.max(0, Math.min(1, share)));
  if (history[name].length > kKept) history[name].shift();
}

function spark(values) {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  const wide = Math.max(values.length, kKept / 4);
  svg.setAttribute('viewBox', `0 0 ${wide} 24`);
  svg.setAttribute('preserveAspectRatio', 'none');
  svg.setAttribute('class', 'spark');
  svg.setAttribute('aria-hidden', 'true');
  const line = document.createElementNS('http://www.w3.org/2000/svg', 'polyline');
  const start = wide - values.length;
  line.setAttribute('points', values.map((share, i) => `${start + i},${(23 - 22 * share).toFixed(1)}`).join(' '));
  svg.append(line);
  return svg;
}

function row(name, share, text, values) {
  const meter = make('meter', { min: '0', max: '1', value: share.toFixed(3), high: '0.95', 'aria-label': name });
  return make('div', { class: 'machine-row' }, make('span', {}, name), meter, make('span', { class: 'n' }, text), spark(values));
}

function draw() {
  const machine = page.machine;
  if (!machine || document.hidden) return;
  const now = performance.now();
  if (last && now - last.time < kEvery) return;
  if (last && machine.total > last.total) push('cpu', (machine.busy - last.busy) / (machine.total - last.total));
  last = { time: now, busy: machine.busy, total: machine.total };
  const used = machine.memory - machine.available;
  push('memory', used / (machine.memory || 1));
  const resident = (chosen().live?.ranks ?? []).reduce((sum, rank) => sum + (rank.alive ? rank.resident : 0), 0);
  push('ranks', resident / (machine.memory || 1));
  const cpu = history.cpu.at(-1) ?? 0;
  const rows = [
    row('processors', cpu, `${format.percent(cpu)} of ${machine.cores}`, history.cpu),
    row('memory', used / (machine.memory || 1), `${format.bytes(used)} of ${format.bytes(machine.memory)}`, history.memory),
    row('rank memory', resident / (machine.memory || 1), resident ? format.bytes(resident) : 'none running', history.ranks),
  ];
  for (const gpu of machine.gpus) {
    const share = (gpu.percent ?? 0) / 100;
    if (gpu.index === 0) push('gpu', share);
    rows.push(row(`GPU ${gpu.index}`, share, `${gpu.percent ?? '–'} %, ${format.bytes(gpu.used)} of ${format.bytes(gpu.total)}`, gpu.index === 0 ? history.gpu : []));
  }
  const none = machine.gpus.length === 0 ? make('p', { class: 'faint' }, 'No GPU is visible here.') : null;
  show(byId('machine-rows'), ...rows, none);
}

on('moment', draw);
