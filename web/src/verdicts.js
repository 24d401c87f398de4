// SPDX-License-Identifier: Apache-2.0
// Why attempts ended, and the log's entries other than steps.
import { byId, empty, make, show } from './dom.js';
import * as format from './format.js';
import { chosen, on } from './state.js';

function attempt(each, isLast) {
  const verdict = each.verdict;
  const head = `attempt ${each.attempt}, ${each.ranks.length} rank${each.ranks.length === 1 ? '' : 's'}`;
  if (!verdict) return isLast ? make('li', {}, make('span', { class: 'faint' }, `${head}: no verdict`)) : null;
  const text = verdict.text ?? verdict.message ?? JSON.stringify(verdict);
  return make(
    'li',
    {},
    make('span', { class: 'faint' }, `${head}: `),
    make('strong', { class: verdict.cause === 'told' ? '' : 'bad' }, text),
    verdict.hint ? make('div', {}, verdict.hint) : null,
    verdict.then ? make('div', { class: 'faint' }, verdict.then) : null,
    verdict.stacks?.length ? make('details', {}, make('summary', {}, 'stacks'), make('pre', {}, verdict.stacks.join('\n'))) : null,
  );
}

// The recipe's main metric first; a held-out loss next to the epoch's.
function metricsOf(metrics, curves) {
  const place = (name) => curves.indexOf(`metric.${name}`);
  const sorted = Object.entries(metrics ?? {}).sort(([a], [b]) => place(a) - place(b));
  return sorted.map(([name, value]) => [name === 'loss' ? 'test loss' : name, value]);
}

function event(each, curves) {
  const { event: kind, step, epoch, metrics, ...rest } = each;
  const place = kind === 'epoch' ? `epoch ${epoch} ended at step ${format.number(step)}` : `${kind}${step != null ? ` at step ${format.number(step)}` : ''}`;
  const others = kind === 'epoch' ? { loss: rest.loss, seconds: rest.seconds } : rest;
  const figures = [...metricsOf(metrics, curves), ...Object.entries(others)]
    .filter(([, value]) => value != null && typeof value !== 'object')
    .map(([name, value]) => `${name} ${typeof value === 'number' ? format.number(value) : value}`);
  return make('li', {}, place, figures.length ? make('span', { class: 'faint' }, ` · ${figures.join(', ')}`) : null);
}

function draw() {
  const state = chosen()?.state;
  if (!state) return;
  const attempts = state.attempts.map((each, i) => attempt(each, i === state.attempts.length - 1)).filter(Boolean).reverse();
  const events = state.events.slice(-60).reverse().map((each) => event(each, state.curves));
  show(
    byId('verdict-list'),
    attempts.length ? make('ul', { class: 'events' }, ...attempts) : null,
    events.length ? make('ul', { class: 'events' }, ...events) : empty('Nothing has happened yet.'),
  );
}

on('state', draw);
on('runs', draw);
