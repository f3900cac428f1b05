/** The command line: its commands, and the one map from errors to exit codes. */
import { Command, CommanderError, type Option } from 'commander'
import { LeadpushError, usageError } from '../base/errors.ts'
import { nearestNames } from '../base/nearest.ts'
import { packageVersion } from '../base/package-root.ts'
import { openIo, openLog } from './command-io.ts'
import { completion } from './commands/completion.ts'
import { db } from './commands/db.ts'
import { deliveries } from './commands/deliveries.ts'
import { demo } from './commands/demo.ts'
import { explain } from './commands/explain.ts'
import { integrations } from './commands/integrations.ts'
import { leads } from './commands/leads.ts'
import { migrate } from './commands/migrate.ts'
import { openapi } from './commands/openapi.ts'
import { preview } from './commands/preview.ts'
import { probe } from './commands/probe.ts'
import { prune } from './commands/prune.ts'
import { push } from './commands/push.ts'
import { receiver } from './commands/receiver.ts'
import { report } from './commands/report.ts'
import { serve } from './commands/serve.ts'
import { settings } from './commands/settings.ts'
import { status } from './commands/status.ts'
import { trigger } from './commands/trigger.ts'
import { users } from './commands/users.ts'
import { validate } from './commands/validate.ts'
import { type Described, type ExitCode, RepeatedOption } from './describe.ts'
import { runDescribed } from './frame.ts'
import type { Io } from './io.ts'
import { type Log, logError } from './log.ts'
import { checkRules } from './rules.ts'

export const exitCodeOf = { usage: 2, database: 3, failed: 1 } as const

/** In the order of `--help`. */
const groups: readonly (readonly [heading: string, commands: readonly Described[]])[] = [
  ['Listings and users:', [leads, users]],
  ['Deliveries:', [push, preview, status, deliveries, report, explain]],
  ['Automation platforms:', [integrations, trigger, serve, openapi]],
  ['Upkeep:', [migrate, validate, settings, prune, db]],
  ["For the receiver's developers:", [receiver, probe]],
  ['Help:', [demo, completion]],
]

/** The streams for help and for complaints of the command line. */
interface Writers {
  out(text: string): void
  error(text: string): void
}

/** Does the work of a command, with its arguments. */
type Run = (described: Described, command: Command, given: readonly unknown[]) => Promise<void>

/** Builds the command line without running anything. */
export function buildProgram(run: Run, { out, error }: Writers): Command {
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

Settings are environment variables; docs/reference/settings.md lists them, and
\`leadpush settings\` shows those in force.

Exit code: 0 all that was asked happened; 1 it ran, and something did not
succeed; 2 wrong usage or settings, nothing was done; 3 the database cannot be
used; 129, 130, 143 stopped by SIGHUP, SIGINT, SIGTERM.`,
    )
  for (const [heading, commands] of groups) {
    program.commandsGroup(heading)
    for (const described of commands) add(program, described, run)
  }
  inherit(program, program)
  return program
}

function add(parent: Command, described: Described, run: Run): void {
  const command = parent.command(described.name).description(described.about)
  for (const each of described.arguments ?? []) command.addArgument(each)
  for (const each of described.options ?? []) {
    if (typeof each === 'string') command.optionsGroup(each)
    else command.addOption(each)
  }
  if (described.help !== '') command.addHelpText('after', described.help)
  if (described.work) {
    command.action(async () => {
      checkRules(described.rules ?? [], command)
      await run(described, command, command.processedArgs)
    })
  }
  for (const each of described.commands ?? []) add(command, each, run)
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

/** commander would silently keep only the last value of a repeated `--user`. */
function refuseTwice(command: Command, option: Option): void {
  let times = 0
  command.on(`option:${option.name()}`, () => {
    if (++times > 1) command.error(`error: option '${option.flags}' was given twice: it takes one value`)
  })
}

/** Runs the command that the arguments name, and returns the exit code. */
export async function runProgram(io: Io): Promise<ExitCode> {
  const { args } = io
  const unlogged = openIo(io)
  let exitCode: ExitCode = 0
  let log: Log | undefined
  let usage = ''
  const run: Run = async (described, command, given) => {
    log = await openLog(io)
    exitCode = await runDescribed({ ...unlogged, log }, described, command, given)
  }
  const program = buildProgram(run, {
    out: (text) => void unlogged.out.write(text),
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
      reportUsage(log, hideValue(usage, program, commandWords), args, commandWords)
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

/**
 * The message without the value of an unknown option, which may be a secret: commander shows `--apikey=KEY` whole, and finds no similar
 * name.
 */
function hideValue(usage: string, program: Command, commandWords: readonly string[]): string {
  const name = /^error: unknown option '(-[^=]*)=/.exec(usage)?.[1]
  if (name === undefined) return usage
  const command = commandWords.reduce((one, word) => one.commands.find((each) => each.name() === word) ?? one, program)
  const known = command.options.flatMap(({ long }) => long ?? [])
  if (known.includes(name)) return `error: option '${name}' takes no value`
  const [nearest] = nearestNames(name, known)
  return `error: unknown option '${name}'${nearest === undefined ? '' : `\n(Did you mean ${nearest}?)`}`
}

/** commander's own words, or the help of a command that was given without its subcommand. */
function reportUsage(log: Log, usage: string, args: readonly string[], commandWords: readonly string[]): void {
  const [word, unknown] = args.slice(commandWords.length)
  // `help` with an unknown command: commander would only print the help of the command above it
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
