// SPDX-License-Identifier: Apache-2.0
// The live page of runs: wires the parts together. Each part listens for the events it needs:
//   moment   several times a second: ranks, machine, progress of the logs
//   state    when something else changed: verdicts, checkpoints, settings, curve names
//   runs     which runs are shown, or which one is chosen
import './style.css';
import { byId, make, show } from './dom.js';
import { chosen, colorName, page, tell } from './state.js';
import * as server from './server.js';
import './tiles.js';
import './curves.js';
import './ranks.js';
import './parts.js';
import './timeline.js';
import './machine.js';
import './verdicts.js';
import './digests.js';
import './checkpoints.js';
import './settings.js';
import './pictures.js';
import './network.js';
import './logs.js';

const kStateEvery = 5000;

async function refresh(run) {
  if (run.asking) return;
  run.asking = true;
  try {
    run.state = await server.state(run.id);
    run.stateTime = performance.now();
    tell('state', run);
    showRuns();
  } catch {
    // the link status shows that the server does not respond
  } finally {
    run.asking = false;
  }
}

// Changes when the slower part of a run has changed: an attempt, a rank that ended, a log that grew.
function fingerprint(live) {
  return JSON.stringify([live.attempt, live.log.size, live.log.read, live.ranks.map((rank) => [rank.alive, rank.launched])]);
}

function lives(live) {
  return JSON.stringify([live.attempt, live.ranks.map((rank) => [rank.alive, rank.launched])]);
}

function onMoment(moment) {
  page.machine = moment.machine;
  moment.runs.forEach((live, id) => {
    const run = page.runs[id];
    const before = run.live;
    run.live = live;
    const isUrgent = before && lives(before) !== lives(live);
    const isDue = run.print !== fingerprint(live) && !(performance.now() - run.stateTime < kStateEvery);
    const isOld = !(performance.now() - run.stateTime < 4 * kStateEvery) && live.ranks.some((rank) => rank.launched);
    if (isUrgent || isDue || isOld) {
      run.print = fingerprint(live);
      refresh(run);
      if (isUrgent) setTimeout(() => refresh(run), 300); // the launcher writes its verdict after the rank's end
    }
  });
  tell('moment');
}

function chip(run) {
  const box = make('input', { type: 'checkbox', 'aria-label': `show ${run.name}`, onchange: () => toggle(run) });
  if (run.shown) box.setAttribute('checked', '');
  const name = make(
    'button',
    { type: 'button', 'aria-pressed': String(run === chosen()), title: run.folder, onclick: () => choose(run) },
    run.name,
  );
  const state = run.state?.diagnosis?.state ?? '…';
  return make(
    'span',
    { class: `chip ${colorName(run.id).slice(2)}` },
    page.runs.length > 1 ? box : null,
    name,
    make('span', { class: `badge ${state}` }, state),
  );
}

function showRuns() {
  const first = chosen()?.name ?? '';
  document.title = `${first}${page.runs.length > 1 ? ` and ${page.runs.length - 1} more` : ''} · Lockstep`;
  show(byId('runs'), ...page.runs.map(chip));
}

function toggle(run) {
  run.shown = !run.shown;
  showRuns();
  tell('runs');
}

function choose(run) {
  page.chosen = run.id;
  showRuns();
  tell('runs');
}

const kWords = {
  live: 'live',
  lost: 'connection lost: trying again',
  ended: 'the server rejects this page: open the address that lockstep printed',
};

function say(link) {
  if (byId('link').dataset.state === link) return;
  byId('link').dataset.state = link;
  byId('link').textContent = kWords[link];
}

async function start() {
  const runs = await server.runs();
  page.runs = runs.map((run, id) => ({ ...run, id, shown: true, state: null, live: null }));
  showRuns();
  await Promise.all(page.runs.map(refresh));
  tell('runs');
  server.listen(onMoment, say);
}

start().catch((error) => {
  byId('link').textContent = String(error.message ?? error);
});
