// SPDX-License-Identifier: Apache-2.0
// The parts of a step on each rank as bars, from the run's last report, and the rank that the others wait for.
import { byId, empty, make, show } from './dom.js';
import * as format from './format.js';
import { chosen, on } from './state.js';

export const kParts = ['data', 'forward', 'backward', 'communication', 'optimizer', 'evaluate', 'save', 'other'];

function bar(rank) {
  const total = Object.values(rank.parts).reduce((sum, seconds) => sum + seconds, 0) || 1;
  const pieces = kParts.filter((part) => rank.parts[part] > 0).map((part) => {
    const share = rank.parts[part] / total;
    return [share, part];
  });
  const words = pieces.map(([share, part]) => `${part} ${format.percent(share)}`).join(', ');
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  svg.setAttribute('viewBox', '0 0 1000 10');
  svg.setAttribute('preserveAspectRatio', 'none');
  svg.setAttribute('role', 'img');
  svg.setAttribute('aria-label', words);
  let x = 0;
  for (const [share, part] of pieces) {
    const rect = document.createElementNS('http://www.w3.org/2000/svg', 'rect');
    rect.setAttribute('x', x.toFixed(1));
    rect.setAttribute('width', (1000 * share).toFixed(1));
    rect.setAttribute('height', '10');
    rect.setAttribute('class', `part-${part}`);
    const title = document.createElementNS('http://www.w3.org/2000/svg', 'title');
    title.textContent = `${part}: ${format.duration(rank.parts[part] / rank.steps)} a step, ${format.percent(share)}`;
    rect.append(title);
    svg.append(rect);
    x += 1000 * share;
  }
  const step = rank.seconds / Math.max(rank.steps, 1);
  return make('div', { class: 'rank-bar' }, make('span', { class: 'n' }, `rank ${rank.rank}`), svg, make('span', { class: 'n' }, format.duration(step)));
}

const busy = (rank) => (rank.seconds - (rank.parts.communication ?? 0)) / Math.max(rank.steps, 1);

// The rank that waits least for the others is the one they wait for.
function straggler(ranks) {
  if (ranks.length < 2) return null;
  const slowest = ranks.reduce((a, b) => (busy(b) > busy(a) ? b : a));
  const rest = ranks.filter((rank) => rank !== slowest).map(busy).sort((a, b) => a - b);
  const median = rest[Math.floor(rest.length / 2)];
  const more = busy(slowest) / median - 1;
  return more < 0.1
    ? 'No rank is much slower than the others.'
    : `Rank ${slowest.rank} computes ${format.percent(more)} longer per step than the median of the others, which wait for it.`;
}

function finding(each) {
  return make('li', {}, typeof each === 'string' ? each : (each.text ?? each.cause ?? JSON.stringify(each)));
}

function draw() {
  const run = chosen();
  const report = run?.state?.report ?? run?.state?.summary?.report;
  if (!report?.ranks?.length) {
    show(byId('part-bars'), empty('The first epoch has not ended yet.'));
    return;
  }
  const legend = kParts.map((part) => make('li', {}, make('span', { class: `dot part-${part}` }), part));
  show(
    byId('part-bars'),
    make('p', { class: 'faint' }, `steps ${report.first_step} to ${report.last_step}; the time per step is at the end of each bar`),
    make('ul', { class: 'legend' }, ...legend),
    ...report.ranks.map(bar),
    make('p', {}, straggler(report.ranks)),
    report.findings?.length ? make('ul', { class: 'details' }, ...report.findings.map(finding)) : null,
  );
}

on('state', draw);
on('runs', draw);
