// SPDX-License-Identifier: Apache-2.0
// The images in the chosen run's folder. They require the token, so an <img> cannot request them itself.
import { byId, make, show } from './dom.js';
import * as server from './server.js';
import { chosen, on } from './state.js';

const seen = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    seen.unobserve(target);
    load(target);
  }
}, { rootMargin: '400px' });

async function load(image) {
  try {
    image.src = URL.createObjectURL(await server.picture(image.dataset.from, image.alt));
    await image.decode();
  } catch {
    // the image is gone, or is not one: its name stays
  } finally {
    URL.revokeObjectURL(image.src);
  }
}

function draw() {
  const run = chosen();
  const names = run?.state?.pictures ?? [];
  byId('pictures').hidden = names.length === 0;
  const figures = names.map((name) =>
    make('figure', {}, make('img', { 'data-from': String(run.id), alt: name }), make('figcaption', {}, name)),
  );
  if (show(byId('picture-list'), ...figures)) byId('picture-list').querySelectorAll('img').forEach((image) => seen.observe(image));
}

on('state', draw);
on('runs', draw);
