// SPDX-License-Identifier: Apache-2.0
// What the page asks of its server.

async function answer(path, options) {
  const response = await fetch(path, options);
  if (!response.ok) throw new Error(`${path}: ${(await response.text()).trim()}`);
  return response.json();
}

const query = (values) => new URLSearchParams(values).toString();

export const runs = () => answer('/api/runs');
export const state = (run) => answer(`/api/run/${run}/state`);
export const curve = (run, values) => answer(`/api/run/${run}/curve?${query(values)}`);
export const timeline = (run, seconds) => answer(`/api/run/${run}/timeline?${query({ seconds })}`);
export const log = (run, values) => answer(`/api/run/${run}/log?${query(values)}`);
export const verify = (run, name) => answer(`/api/run/${run}/verify?${query({ name })}`, { method: 'POST' });
export const pictureUrl = (run, name) => `/api/run/${run}/picture?${query({ name })}`;

/// Calls `use` several times a second with what the runs do now, and `say` where the link changes.
export function listen(use, say) {
  const source = new EventSource('/api/events');
  source.addEventListener('moment', (event) => {
    say('live');
    use(JSON.parse(event.data));
  });
  source.addEventListener('error', () => say(source.readyState === EventSource.CLOSED ? 'ended' : 'lost'));
}
