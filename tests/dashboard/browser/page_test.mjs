// SPDX-License-Identifier: Apache-2.0
// node page_test.mjs PART FACTS: one part of page_test.py in a browser. An exception ends it with an exit code.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { withBrowser } from './browser.mjs';

const kFrames = 30; // per second
const [part, words] = process.argv.slice(2);
const facts = JSON.parse(words);

// All requests go to the page's own host, and none fails.
function watch(page) {
  const wrong = [];
  page.on('request', (request) => {
    if (new URL(request.url()).origin !== new URL(facts.url).origin) wrong.push(`asked ${request.url()}`);
  });
  page.on('pageerror', (error) => wrong.push(error.message));
  page.on('console', (line) => line.type() === 'error' && wrong.push(line.text()));
  return wrong;
}

async function open(page) {
  await page.goto(facts.url);
  await page.waitForSelector('[data-curve="loss"] .u-wrap', { timeout: 60_000 });
}

const values = (page, curve) =>
  page.$$eval(`[data-curve="${curve}"] [data-run]`, (all) =>
    Object.fromEntries(all.map((each) => [each.dataset.run, [Number(each.dataset.step), Number(each.dataset.value)]])),
  );

async function twoRuns(page) {
  const wrong = watch(page);
  await open(page);
  assert.equal(page.url(), new URL('/', facts.url).href, 'the token is no longer in the address');
  assert.deepEqual(await page.context().cookies(), [], 'no server at another port gets a cookie');
  const lines = readFileSync(facts.log, 'utf8').trim().split('\n').map((line) => JSON.parse(line));
  const last = lines.filter((line) => line.event === 'step').at(-1);
  for (const curve of ['loss', 'images_per_s', 'lr', 'metric.accuracy']) {
    // The states of runs arrive in any order.
    for (const run of ['small', 'other']) await page.waitForSelector(`[data-curve="${curve}"] [data-run="${run}"]`);
  }
  for (const curve of ['loss', 'images_per_s', 'lr']) {
    assert.deepEqual((await values(page, curve)).small, [last.step, last[curve]], curve);
  }
  assert.deepEqual((await values(page, 'metric.accuracy')).small, [100, 0.875]);
  const rows = await page.$$eval('#setting-table tbody tr', (all) => all.map((row) => row.innerText.split('\t').map((s) => s.trim())));
  assert.deepEqual(rows, [['optimizer.lr', '0.001', '0.002', 'config.yml:4']], 'only the setting that differs');
  await page.waitForFunction(() => document.getElementById('digest-table').innerText.includes('first differ at step 31 (weights)'));
  await page.locator('#logs').scrollIntoViewIfNeeded();
  await page.waitForFunction(() => document.getElementById('log-text').textContent.includes('rank 0 says hello'));
  await page.locator('#pictures').scrollIntoViewIfNeeded();
  await page.waitForFunction(() => document.querySelector('#picture-list img[alt="found.png"]').naturalWidth > 0);
  await keyboard(page);
  await page.reload();
  await page.waitForSelector('[data-curve="loss"] .u-wrap');
  await link(page);
  assert.deepEqual(wrong, []);
}

// A page of another site may link to this one; a stranger's page at another name of this machine may not send requests.
async function link(page) {
  const other = await page.context().newPage();
  await other.route('http://elsewhere.example/', (route) => route.fulfill({ contentType: 'text/html', body: '<a>go</a>' }));
  await other.goto('http://elsewhere.example/');
  await other.$eval('a', (anchor, url) => { anchor.href = url; }, facts.url);
  await other.click('a');
  await other.waitForSelector('[data-curve="loss"] .u-wrap', { timeout: 60_000 });
  await other.close();
}

// A chart can be zoomed without a mouse, and everything that can be focused has a name.
async function keyboard(page) {
  await page.focus('[data-curve="loss"]');
  await page.keyboard.press('+');
  await page.waitForFunction(() => !document.getElementById('reset').disabled);
  await page.keyboard.press('0');
  await page.waitForFunction(() => document.getElementById('reset').disabled);
  const nameless = await page.$$eval('button, a, input, select, [tabindex="0"]', (all) =>
    all.filter((e) => !(e.getAttribute('aria-label') || e.getAttribute('aria-labelledby') || e.closest('label') || e.innerText.trim()))
      .map((e) => e.outerHTML.slice(0, 100)),
  );
  assert.deepEqual(nameless, []);
}

// True if the run's colour is anywhere in a chart.
const isDrawn = (page, curve) =>
  page.$eval(`[data-curve="${curve}"] canvas`, (canvas) => {
    const style = getComputedStyle(document.documentElement).getPropertyValue('--run-1').trim();
    const color = [1, 3, 5].map((at) => parseInt(style.slice(at, at + 2), 16));
    const bytes = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    for (let at = 0; at < bytes.length; at += 4) {
      if (color.every((part, i) => Math.abs(bytes[at + i] - part) < 8) && bytes[at + 3] > 200) return true;
    }
    return false;
  });

// The most wanted charts come first; the parts of the loss appear on request.
async function detector(page) {
  const wrong = watch(page);
  await open(page);
  const order = (box) => page.$$eval(`${box} > [data-curve]`, (all) => all.map((each) => each.dataset.curve));
  assert.deepEqual(await order('#charts'),
    ['loss', 'metric.bbox_map', 'metric.a_small', 'metric.ar', 'epoch.loss', 'images_per_s', 'lr']);
  assert.deepEqual(await order('#part-charts'), [], 'parts that nobody looks at are not asked for');
  const tiles = await page.$$eval('#tiles > div', (all) => Object.fromEntries(all.map((each) => [...each.children].map((e) => e.innerText))));
  assert.equal(tiles.bbox_map, '0', 'the last evaluation stays above the curves');
  assert.equal(tiles.a_small, '0.25');
  assert.equal(await page.$eval('#tiles [title]', (each) => each.title), 'at step 10');
  assert.ok(await isDrawn(page, 'metric.a_small'), 'a single evaluation is a dot');
  if (facts.pictures) await page.screenshot({ path: `${facts.pictures}/detector.png`, fullPage: true });
  await page.click('#loss-parts summary');
  await page.waitForSelector('[data-curve="losses.part_39"] .u-wrap');
  assert.equal((await order('#part-charts')).length, 40);
  for (const scale of ['linear', 'log']) {
    if (scale === 'log') await page.check('#log');
    await page.waitForTimeout(500);
    assert.equal(await isDrawn(page, 'metric.bbox_map'), scale === 'linear', `a metric that is 0, ${scale}`);
    assert.ok(await isDrawn(page, 'loss'), `the loss, ${scale}`);
    if (facts.pictures) await page.screenshot({ path: `${facts.pictures}/detector-${scale}.png`, fullPage: true });
  }
  assert.deepEqual(wrong, []);
}

async function withoutToken(page) {
  for (const path of ['api/runs', 'api/run/0/state', 'api/events', 'api/runs?token=0']) {
    const answer = await page.goto(facts.url + path);
    assert.equal(answer.status(), 403, path);
    assert.ok(!(await page.content()).includes('loss'), path);
  }
  await page.goto(facts.url);
  await page.waitForFunction(() => document.getElementById('link').textContent.includes('open the address that lockstep printed'));
}

// The frames of `seconds`, with a call of `act` in each.
const frames = (page, seconds, act) =>
  page.evaluate(
    ([seconds, act]) =>
      new Promise((done) => {
        const step = new Function('frame', act);
        let count = 0;
        let longest = 0;
        let last = performance.now();
        const start = last;
        const next = (now) => {
          longest = Math.max(longest, now - last);
          last = now;
          if (now - start > 1000 * seconds) return done({ rate: (1000 * count) / (now - start), longest });
          step(count++);
          requestAnimationFrame(next);
        };
        requestAnimationFrame(next);
      }),
    [seconds, act],
  );

async function largeRun(page) {
  const wrong = watch(page);
  const begun = Date.now();
  await open(page);
  await page.waitForFunction((points) => document.querySelector('[data-curve="loss"] [data-run]')?.dataset.step === String(points),
    facts.points, { timeout: 60_000 });
  console.log(`the last of ${facts.points} steps is shown after ${((Date.now() - begun) / 1000).toFixed(1)} s`);
  const chart = `const box = document.querySelector('[data-curve="loss"]');
    box.dispatchEvent(new KeyboardEvent('keydown', { key: frame % 60 < 30 ? '+' : '-', bubbles: true }));`;
  const scroll = `window.scrollTo({ top: (frame * 12) % (document.body.scrollHeight - innerHeight), behavior: 'instant' });`;
  const lanes = `const c = document.getElementById('lanes'); const box = c.getBoundingClientRect();
    c.dispatchEvent(new WheelEvent('wheel', { deltaY: frame % 60 < 30 ? -1 : 1, clientX: box.left + 500, clientY: box.top + 50, bubbles: true, cancelable: true }));`;
  for (const [name, act] of [['zooming a curve', chart], ['scrolling', scroll]]) await measure(page, name, act);
  await page.locator('#lanes').scrollIntoViewIfNeeded();
  await page.waitForFunction(() => document.getElementById('lanes').getAttribute('aria-label').startsWith('64 ranks'));
  await measure(page, 'zooming 64 lanes', lanes);
  assert.deepEqual(wrong, []);
}

async function measure(page, name, act) {
  const { rate, longest } = await frames(page, 3, act);
  console.log(`${name}: ${rate.toFixed(1)} frames a second, the longest ${longest.toFixed(0)} ms`);
  assert.ok(rate >= kFrames, `${name}: ${rate} frames a second`);
}

async function killedRank(page) {
  await page.goto(facts.url);
  await page.waitForFunction(() => document.querySelectorAll('#rank-table tbody tr').length === 4 &&
    [...document.querySelectorAll('#rank-table tbody tr')].every((row) => row.innerText.includes('forward')));
  const row = await page.locator('#rank-table tbody tr').nth(2).innerText();
  const pid = Number(row.match(/pid (\d+)/)[1]);
  const killed = Date.now();
  process.kill(pid, 'SIGKILL');
  await page.waitForFunction(() => /rank 2 .*signal 9/.test(document.getElementById('verdict-list').innerText), null, { polling: 20 });
  const took = Date.now() - killed;
  console.log(`a killed rank is shown after ${took} ms`);
  assert.ok(took < 1000, `${took} ms`);
}

const parts = { two_runs: twoRuns, detector, without_token: withoutToken, large_run: largeRun, killed_rank: killedRank };
await withBrowser(facts, parts[part]);
