/** The command line: which commands there are, and the one map from what happened to an exit code. */
import { Command, CommanderError, type Option } from 'commander'
import { LeadpushError } from '../base/errors.ts'
import { packageVersion } from '../base/package-root.ts'
import { type Act, type ExitCode, usageError } from './command.ts'
import { openIo, openLog } from './command-io.ts'
import { addCompletion } from './completion/command.ts'
import { addDb } from './db.ts'
import { addDeliveries } from './deliveries/command.ts'
import { addDemo } from './demo.ts'
import { addExplain } from './explain/command.ts'
import { addIntegrations } from './integrations.ts'
import type { Io } from './io.ts'
import { addLeads } from './leads/command.ts'
import { type Log, logError } from './log.ts'
import { addMigrate } from './migrate.ts'
import { addOpenapi } from './openapi.ts'
import { RepeatedOption } from './options.ts'
import { addPreview } from './preview.ts'
import { addProbe } from './probe.ts'
import { addPrune } from './prune.ts'
import { addPush } from './push/command.ts'
import { addReceiver } from './receiver/command.ts'
import { addReport } from './report.ts'
import { addServe } from './serve.ts'
import { addSettings } from './settings.ts'
import { addStatus } from './status/command.ts'
import { addTrigger } from './trigger/command.ts'
import { addUsers } from './users/command.ts'
import { addValidate } from './validate.ts'

export const exitCodeOf = { usage: 2, database: 3, failed: 1 } as const

/** In the order of `--help`. */
const groups: readonly (readonly [heading: string, adders: readonly ((program: Command, act: Act) => void)[]])[] = [
  ['Listings and users:', [addLeads, addUsers]],
  ['Deliveries:', [addPush, addPreview, addStatus, addDeliveries, addReport, addExplain]],
  ['Automation platforms:', [addIntegrations, addTrigger, addServe, addOpenapi]],
  ['Upkeep:', [addMigrate, addValidate, addSettings, addPrune, addDb]],
  ["For the receiver's developers:", [addReceiver, addProbe]],
  ['Help:', [addDemo, addCompletion]],
]

/** Where help and complaints of the command line go. */
interface Writers {
  out(text: string): void
  error(text: string): void
}

/** Builds the command line without running anything; `act` wraps each action. */
export function buildProgram(act: Act, { out, error }: Writers): Command {
  const program = new Command('leadpush')
    .description("Deliver each user's for-sale-by-owner leads to the service that the user works with.")
    .version(packageVersion, '-V, --version', 'print the version')
    .helpOption('-h, --help', 'print help')
    .configureHelp({ showGlobalOptions: false, sortSubcommands: false })
    .configureOutput({
      outputError: error,
      writeErr: error,
      writeOut: out,
    })
    .showSuggestionAfterError(true)
    .addHelpText(
      'after',
      `
Begin with:
  leadpush demo                                 see it work; nothing to set up
  leadpush leads import listings.csv            take listings in
  leadpush users import users.csv               take users in
  leadpush preview                              see what would be sent
  LEADPUSH_RECEIVER_URL=https://… leadpush push --all

Settings are environment variables; docs/settings.md lists them, and
\`leadpush settings\` shows those in force.

Exit code: 0 all that was asked happened; 1 it ran, and something did not
succeed; 2 wrong usage or settings, nothing was done; 3 the database cannot be
used; 129, 130, 143 stopped by SIGHUP, SIGINT, SIGTERM.`,
    )
  for (const [heading, adders] of groups) {
    program.commandsGroup(heading)
    for (const add of adders) add(program, act)
  }
  inherit(program, program)
  return program
}

function inherit(parent: Command, root: Command): void {
  if (parent.commands.length > 0) parent.helpCommand('help [command]', 'print help')
  for (const command of parent.commands) {
    command.copyInheritedSettings(root).exitOverride()
    for (const option of command.options)
      if ((option.required || option.optional) && !option.variadic && !(option instanceof RepeatedOption))
        refuseTwice(command, option)
    inherit(command, root)
  }
}

/** Of a repeated `--user` commander would silently keep the last value alone. */
function refuseTwice(command: Command, option: Option): void {
  let times = 0
  command.on(`option:${option.name()}`, () => {
    if (++times > 1) command.error(`error: option '${option.flags}' was given twice: it takes one value`)
  })
}

/** Runs the command that the arguments name, and returns what to exit with. */
export async function runProgram(io: Io): Promise<ExitCode> {
  const { args } = io
  const unlogged = openIo(io)
  let exitCode: ExitCode = 0
  let log: Log | undefined
  let usage = ''
  const act: Act =
    (action) =>
    async (...given) => {
      log = await openLog(io)
      exitCode = await action({ ...unlogged, log }, ...given)
    }
  const program = buildProgram(act, {
    out: (text) => void unlogged.out.writeNow(text),
    error: (text) => {
      usage += text
    },
  }).exitOverride()
  try {
    await program.parseAsync([...args], { from: 'user' })
    return exitCode
  } catch (error) {
    if (error instanceof CommanderError) {
      if (error.exitCode === 0) return 0
      log ??= await openLog(io)
      const commandWords = findCommandWords(program, args)
      reportUsage(log, await hideValue(usage, program, commandWords), args, commandWords)
      return 2
    }
    logError(log ?? (await openLog(io)), error)
    return error instanceof LeadpushError ? exitCodeOf[error.code] : 1
  }
}

/** The words at the beginning of `args` that name a command: `leads forget`. */
function findCommandWords(program: Command, args: readonly string[]): string[] {
  const [word = ''] = args
  const command = program.commands.find((one) => one.name() === word)
  return command ? [word, ...findCommandWords(command, args.slice(1))] : []
}

/** Without the value of an unknown option, which may be a secret: commander shows `--apikey=KEY` whole, and finds no name like it. */
async function hideValue(usage: string, program: Command, commandWords: readonly string[]): Promise<string> {
  const name = /^error: unknown option '(-[^=]*)=/.exec(usage)?.[1]
  if (name === undefined) return usage
  const { nearestNames } = await import('../base/nearest.ts')
  const command = commandWords.reduce((one, word) => one.commands.find((each) => each.name() === word) ?? one, program)
  const known = command.options.flatMap(({ long }) => long ?? [])
  if (known.includes(name)) return `error: option '${name}' takes no value`
  const [nearest] = nearestNames(name, known)
  return `error: unknown option '${name}'${nearest === undefined ? '' : `\n(Did you mean ${nearest}?)`}`
}

/** commander's own words, or where a command was given without its subcommand, its help. */
function reportUsage(log: Log, usage: string, args: readonly string[], commandWords: readonly string[]): void {
  const [word, unknown] = args.slice(commandWords.length)
  // `help` of a word that is no command: commander would print the help of what is above it, and nothing else
  const isAsked = word === 'help' && unknown !== undefined && /^Usage: /.test(usage)
  const text = isAsked ? `unknown command '${unknown}'` : usage.replace(/^error: /, '').trim()
  if (/^Usage: /.test(text) && log.format === 'pretty') {
    log.info(text)
    return
  }
  const help = `Run \`${['leadpush', ...commandWords, '--help'].join(' ')}\` for how to use it.`
  const message = /^Usage: /.test(text) ? 'no command was given' : text.replace(/\s*\n\(?(.*?)\)?$/, '; $1')
  logError(log, usageError(message.replace('; Did', '; did'), help))
}
