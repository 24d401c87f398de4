// SPDX-License-Identifier: Apache-2.0
// Each rank of the chosen run: where it is, in which collective, and its use of the machine.
import { byId, empty, make, show, table } from './dom.js';
import * as format from './format.js';
import { chosen, on } from './state.js';

const kColumns = [
  { name: 'rank', number: true }, { name: 'now in' }, { name: 'for', number: true }, { name: 'step', number: true },
  { name: 'collective' }, { name: 'CPU', number: true }, { name: 'memory', number: true }, { name: 'process' },
];
const kStates = { R: 'runs', S: 'sleeps', D: 'waits for a device', T: 'stopped', t: 'traced' };

const before = new Map(); // rank -> {time, cpu, share}

// The share of one core since a second ago or more.
function cpuShare(run, rank) {
  const key = `${run.id}/${rank.pid}`;
  const now = performance.now();
  const last = before.get(key);
  if (!last || rank.cpu < last.cpu) {
    before.set(key, { time: now, cpu: rank.cpu, share: null });
    return null;
  }
  if (now - last.time > 1000) {
    before.set(key, { time: now, cpu: rank.cpu, share: (1000 * (rank.cpu - last.cpu)) / (now - last.time) });
  }
  return before.get(key).share;
}

function where(rank) {
  if (rank.sections.length === 0) return rank.has_ring ? 'no section' : 'not started';
  return make('span', { class: 'sections' }, ...rank.sections.map((section) => make('span', { class: 'section' }, section.name)));
}

function collective(rank) {
  const lane = (rank.lanes ?? []).filter((each) => each.started > each.finished).at(-1);
  if (!lane) return rank.lanes?.length ? make('span', { class: 'faint' }, `${format.number(rank.lanes[0].finished)} done`) : '';
  const bucket = lane.bucket >= 0 ? `, bucket ${lane.bucket + 1} of ${lane.buckets}` : '';
  return `${lane.name}, ${format.bytes(lane.bytes)}${bucket}, ${format.duration(lane.seconds)}`;
}

function process(rank) {
  if (!rank.has_ring) return '';
  if (!rank.launched) return make('span', { class: 'faint' }, `ended (pid ${rank.pid})`);
  if (!rank.alive) return make('strong', { class: 'bad' }, `dead (pid ${rank.pid})`);
  const isStopped = rank.state === 'T' || rank.state === 't';
  return make('span', { class: isStopped ? 'bad' : null }, `${kStates[rank.state] ?? rank.state} (pid ${rank.pid})`);
}

function row(run, rank) {
  const share = rank.alive ? cpuShare(run, rank) : null;
  const inner = rank.sections.at(-1);
  return {
    class: rank.launched && rank.has_ring && !rank.alive ? 'dead' : null,
    cells: [
      String(rank.rank), where(rank), rank.launched && inner ? format.duration(inner.seconds) : '',
      rank.step >= 0 ? format.number(rank.step) : '', collective(rank), share == null ? '' : format.percent(share),
      rank.alive ? format.bytes(rank.resident) : '', process(rank),
    ],
  };
}

function draw() {
  const run = chosen();
  if (!run?.live || document.hidden) return;
  const { ranks, attempt } = run.live;
  show(
    byId('rank-table'),
    ranks.length === 0
      ? empty('No rank has a flight ring on this machine. A single process without a launcher writes none.')
      : table(`Ranks of attempt ${attempt}`, kColumns, ranks.map((rank) => row(run, rank))),
  );
}

on('moment', draw);
on('runs', draw);
