// SPDX-License-Identifier: Apache-2.0
// The chosen run at a glance: its diagnosis, and a few large numbers.
import { byId, make, show } from './dom.js';
import * as format from './format.js';
import { chosen, on } from './state.js';

function verdict(run) {
  const diagnosis = run.state?.diagnosis;
  if (!diagnosis) return;
  const next = (diagnosis.next ?? []).map((line) => make('code', {}, line));
  show(
    byId('verdict'),
    make('p', { class: `diagnosis ${diagnosis.state}` }, make('strong', {}, diagnosis.state), ' ', diagnosis.text ?? ''),
    diagnosis.details?.length ? make('ul', { class: 'details' }, ...diagnosis.details.map((line) => make('li', {}, line))) : null,
    next.length && diagnosis.state !== 'finished' ? make('p', { class: 'next' }, 'next: ', ...next) : null,
  );
}

const setting = (run, key) => run.state?.settings?.find((each) => each.key === key)?.value;

function lastEpoch(run) {
  return run.state?.events?.findLast((event) => event.event === 'epoch');
}

function figures(run) {
  const log = run.live?.log;
  const epoch = lastEpoch(run);
  const most = Number(setting(run, 'max_steps') ?? 0);
  const latest = run.latest ?? {};
  const out = [['step', `${format.number(log?.step ?? 0)}${most > 0 ? ` of ${format.number(most)}` : ''}`]];
  if (epoch) out.push(['epoch', `${epoch.epoch}${setting(run, 'epochs') ? ` of ${setting(run, 'epochs')}` : ''}`]);
  if (latest.loss != null) out.push(['loss', format.number(latest.loss)]);
  const evaluation = run.state?.evaluation;
  for (const [name, value] of evaluation?.metrics?.slice(0, 2) ?? []) out.push([name, format.number(value), `at step ${evaluation.step}`]);
  if (latest.images_per_s != null) out.push(['throughput', `${format.number(latest.images_per_s, 4)} images/s`]);
  if (epoch?.data_wait != null) out.push(['wait for data', format.percent(epoch.data_wait)]);
  if (log && log.read < log.size) out.push(['reading the log', format.percent(log.read / log.size)]);
  return out;
}

function draw() {
  const run = chosen();
  if (!run) return;
  verdict(run);
  show(byId('tiles'), ...figures(run).map(([name, value, title]) => make('div', { title }, make('dt', {}, name), make('dd', {}, value))));
}

on('state', draw);
on('runs', draw);
on('moment', draw);
on('latest', draw);
