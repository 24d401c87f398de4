// SPDX-License-Identifier: Apache-2.0
// The page's requests to its server. The token comes in the fragment of the address, which no server sees, is removed
// from the address bar at once, and is sent in a header of each request: not in a cookie, which servers on other ports
// would get too.

const kToken = 'lockstep-token';
const kAgain = 1000; // ms until the next attempt
const kNoToken = 'no token: open the address that lockstep printed';

function takeToken() {
  const found = /^#token=(\w+)$/.exec(location.hash);
  if (!found) return false;
  sessionStorage.setItem(kToken, found[1]);
  history.replaceState(null, '', location.pathname);
  return true;
}

takeToken();
// A second address, pasted into the same tab, loads nothing by itself.
addEventListener('hashchange', () => takeToken() && location.reload());

async function ask(path, options = {}) {
  const token = sessionStorage.getItem(kToken);
  if (!token) throw new Error(kNoToken);
  const response = await fetch(path, { ...options, headers: { Authorization: `Bearer ${token}` } });
  if (!response.ok) throw new Error(`${path}: ${(await response.text()).trim()}`);
  return response;
}

const answer = async (path, options) => (await ask(path, options)).json();
const query = (values) => new URLSearchParams(values).toString();

export const runs = () => answer('/api/runs');
export const state = (run) => answer(`/api/run/${run}/state`);
export const curve = (run, values) => answer(`/api/run/${run}/curve?${query(values)}`);
export const timeline = (run, seconds) => answer(`/api/run/${run}/timeline?${query({ seconds })}`);
export const log = (run, values) => answer(`/api/run/${run}/log?${query(values)}`);
export const digests = (run, other) => answer(`/api/run/${run}/digests?${query({ with: other })}`);
export const verify = (run, name) => answer(`/api/run/${run}/verify?${query({ name })}`, { method: 'POST' });
export const network = async (run) => (await ask(`/api/run/${run}/network`)).arrayBuffer();
export const runtime = async () => (await ask('/network/runtime.wasm.gz')).body;
export const picture = async (run, name) => (await ask(`/api/run/${run}/picture?${query({ name })}`)).blob();

/// Calls `use` with the data of each event, until the stream ends.
async function follow(body, use) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ''; ; ) {
    const { done, value } = await reader.read();
    if (done) return;
    const events = (rest + value).split('\n\n');
    rest = events.pop();
    for (const event of events) use(JSON.parse(event.slice(event.indexOf('data: ') + 6)));
  }
}

/// Calls `use` several times a second with the current activity of the runs, and `say` when the link changes.
export async function listen(use, say) {
  for (;;) {
    try {
      const { body } = await ask('/api/events');
      await follow(body, (moment) => {
        say('live');
        use(moment);
      });
    } catch (error) {
      if (!(error instanceof TypeError)) say('ended'); // another server has the port now, or this token is not accepted
    }
    if (document.getElementById('link').dataset.state !== 'ended') say('lost');
    await new Promise((done) => setTimeout(done, kAgain));
  }
}
