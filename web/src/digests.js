// SPDX-License-Identifier: Apache-2.0
// How far the shown runs are bit-identical, according to their step digests, and what the guard has verified.
import { byId, empty, make, show, table } from './dom.js';
import * as format from './format.js';
import * as server from './server.js';
import { chosen, on, page, shown } from './state.js';

const kCorruption = 77; // exit code
const found = new Map(); // run.id/other.id -> {last steps, answer}

const setting = (run, key) => run.state?.settings?.find((each) => each.key === key)?.value;

function stepsOf(run) {
  const digests = run.state?.digests;
  if (!digests || digests.steps === 0) return make('span', { class: 'faint' }, 'none');
  return `${format.number(digests.first)} to ${format.number(digests.last)}`;
}

function guardOf(run) {
  const last = run.state?.attempts?.at(-1)?.verdict;
  if (last?.exit_code === kCorruption) return make('span', { class: 'bad' }, run.state.diagnosis.text);
  const every = Number(setting(run, 'guard') ?? 0);
  if (!(every > 0)) return make('span', { class: 'faint' }, 'off');
  const proved = run.state.proved;
  if (proved == null) return make('span', { class: 'faint' }, 'nothing verified yet, or this run cannot be verified');
  return `every ${format.number(every)} steps; verified up to step ${format.number(proved)}`;
}

// Asks again only when one of the chains has grown.
function compared(run, other) {
  const key = `${run.id}/${other.id}`;
  const print = JSON.stringify([run.state?.digests, other.state?.digests]);
  const known = found.get(key);
  if (known?.print === print) return known.answer;
  found.set(key, { print, answer: known?.answer });
  server
    .digests(run.id, other.id)
    .then((answer) => {
      found.set(key, { print, answer });
      draw();
    })
    .catch(() => found.delete(key));
  return known?.answer;
}

function comparison(run, other) {
  if (run === other) return '–';
  if (!run.state?.digests || !other.state?.digests) return '–';
  const answer = compared(run, other);
  if (!answer) return '…';
  if (answer.steps === 0) return make('span', { class: 'faint' }, 'no steps in common');
  if (answer.equal) return make('span', { class: 'good' }, `equal: ${format.number(answer.steps)} steps`);
  return make('span', { class: 'bad' }, `first differ at step ${format.number(answer.step)} (${answer.differs})`);
}

function draw() {
  const first = chosen();
  if (!first?.state) return;
  const several = page.runs.length > 1;
  const runs = several ? shown() : [first];
  const columns = [...(several ? [{ name: 'run' }] : []), { name: 'steps with digests' }, { name: 'guard' }, ...(several ? [{ name: `compared with ${first.name}` }] : [])];
  const cells = (run) => [...(several ? [run.name] : []), stepsOf(run), guardOf(run), ...(several ? [comparison(run, first)] : [])];
  show(
    byId('digest-table'),
    runs.some((run) => run.state?.digests) || runs.some((run) => setting(run, 'guard') > 0)
      ? table('Digests of steps', columns, runs.filter((run) => run.state).map((run) => ({ cells: cells(run) })))
      : empty('This run keeps no digests of its steps.'),
  );
}

on('state', draw);
on('runs', draw);
