// SPDX-License-Identifier: Apache-2.0
// The pictures that lie in the chosen run's folder.
import { byId, make, show } from './dom.js';
import * as server from './server.js';
import { chosen, on } from './state.js';

function draw() {
  const run = chosen();
  const names = run?.state?.pictures ?? [];
  byId('pictures').hidden = names.length === 0;
  show(
    byId('picture-list'),
    ...names.map((name) =>
      make('figure', {}, make('img', { src: server.pictureUrl(run.id, name), alt: name, loading: 'lazy' }), make('figcaption', {}, name)),
    ),
  );
}

on('state', draw);
on('runs', draw);
