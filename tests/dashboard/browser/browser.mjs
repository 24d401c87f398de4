// SPDX-License-Identifier: Apache-2.0
// A headless Chromium of Debian, driven by playwright-core from the build's node_modules.
import { createRequire } from 'node:module';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const kArguments = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
  '--disable-background-networking', '--disable-component-update', '--disable-sync'];

export async function withBrowser({ modules, chromium = '/usr/bin/chromium', ...options }, use) {
  const require = createRequire(join(modules, 'index.js'));
  const { chromium: driver } = require('playwright-core');
  const profile = mkdtempSync(join(tmpdir(), 'lockstep-chromium-'));
  const context = await driver.launchPersistentContext(profile, {
    executablePath: chromium, headless: true, args: kArguments, viewport: { width: 1440, height: 900 }, ...options,
  });
  try {
    return await use(context.pages()[0] ?? (await context.newPage()), context);
  } finally {
    await context.close();
    rmSync(profile, { recursive: true, force: true });
  }
}
