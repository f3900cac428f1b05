/**
 * Opens the program's pages in a real browser: a headless Chromium, one for each test file, started when first needed. A page
 * that reports an error, or requests anything but itself, fails its test.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import { pathToFileURL } from 'node:url'
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core'
import { findInstalled, lacking } from './installed.ts'

const names = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable']
const flags = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

const { CHROMIUM } = process.env
const wanted = CHROMIUM ? [CHROMIUM] : names
const executablePath = findInstalled(...wanted)
const advice = `no Chromium at ${wanted.join(', ')}: install it (Debian: apt-get install chromium), or say in CHROMIUM where it is`

/** For the option `skip` of a test. */
export const withoutBrowser: string | false = lacking(...wanted) && advice

let starting: Promise<Browser> | undefined
let home: string | undefined

function findBrowser(): Promise<Browser> {
  if (executablePath === undefined) throw new Error(advice)
  home ??= mkdtempSync(join(tmpdir(), 'leadpush-test-'))
  const env = { PATH: process.env.PATH ?? '', HOME: home, TMPDIR: home }
  // playwright makes an empty folder for the user's data
  starting ??= chromium.launch({ executablePath, args: flags, env, timeout: 60_000 })
  return starting
}

after(async () => {
  await starting?.then((browser) => browser.close())
  if (home) rmSync(home, { recursive: true, force: true, maxRetries: 5 })
})

export interface PageOptions {
  /** The size of the window in CSS pixels; by default 1,440 by 900. */
  width?: number
  height?: number
  colorScheme?: 'light' | 'dark'
}

/** Collects what a good page never does: errors, violations of its policy, requests. */
async function watch(context: BrowserContext, page: Page, url: string): Promise<string[]> {
  const problems: string[] = []
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) problems.push(`console: ${message.text()}`)
  })
  page.on('pageerror', (error) => void problems.push(`error: ${error.message}`))
  page.on('crash', () => void problems.push('the page crashed'))
  page.on('dialog', (dialog) => {
    problems.push(`dialog: ${dialog.message()}`)
    void dialog.dismiss()
  })
  await context.exposeFunction('reportViolation', (text: string) => void problems.push(`policy: ${text}`))
  await context.addInitScript(`addEventListener('securitypolicyviolation', (event) =>
    reportViolation(event.effectiveDirective + ' ' + event.blockedURI))`)
  context.on('request', (request) => {
    if (request.url().split('#')[0] !== url) problems.push(`request: ${request.url().slice(0, 200)}`)
  })
  return problems
}

/**
 * Opens a file as a person would. Fails after `look` if there was an error, a violation, or a request for anything but the
 * file.
 */
export async function withPage<T>(path: string, options: PageOptions, look: (page: Page) => Promise<T>): Promise<T> {
  const { width = 1_440, height = 900, colorScheme = 'light' } = options
  const browser = await findBrowser()
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme,
    offline: true,
    acceptDownloads: false,
  })
  context.setDefaultTimeout(20_000)
  try {
    const page = await context.newPage()
    const url = pathToFileURL(path).href
    const problems = await watch(context, page, url)
    await page.goto(url)
    const found = await look(page)
    assert.deepEqual(problems, [])
    return found
  } finally {
    await context.close()
  }
}

/** By how many pixels the page is wider than the window; 0 where nobody has to scroll sideways. */
export function findOverflow(page: Page): Promise<number> {
  return page.evaluate('document.documentElement.scrollWidth - document.documentElement.clientWidth')
}

let axeSource: string | undefined

/** The barriers that axe finds in a page: rule, severity, where. */
export async function findAccessibilityProblems(page: Page): Promise<string[]> {
  axeSource ??= readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
  // evaluated from outside, since the page's policy admits no script; leaves nothing behind
  await page.evaluate(`${axeSource};undefined`)
  const { violations } = (await page.evaluate('axe.run()')) as {
    violations: { id: string; impact: string; nodes: { target: string[]; failureSummary: string }[] }[]
  }
  return violations.flatMap(({ id, impact, nodes }) =>
    nodes.map(({ target, failureSummary }) => `${id} (${impact}): ${target.join(' ')}: ${failureSummary}`),
  )
}
