/** Why a database cannot be reached or used, and what to do: the one list for the errors of commands and for `validate`. Pure. */

interface Trouble {
  is(code: string, message: string): boolean
  what: string
  toDo: string
  /** It may pass by itself; for the embedded database it means that its server is down. */
  isAbsence?: true
}

const isOneOf =
  (...codes: string[]) =>
  (code: string) =>
    codes.includes(code)

export const adviseOnReadOnly =
  'DATABASE_URL must lead to the primary server: name all servers, and it is found, or the address that follows it.'

const again = 'then run the command again: it continues where it stopped.'

/** The first entry that fits counts. */
const troubles: readonly Trouble[] = [
  {
    is: (_, message) => /no encryption|SSL off|SSL required/.test(message),
    what: 'The server demands TLS',
    toDo: 'Add sslmode=verify-full to DATABASE_URL, or sslmode=require, which checks no certificate.',
  },
  {
    is: isOneOf('ENOTFOUND', 'EAI_AGAIN'),
    what: 'The host name in DATABASE_URL is not known to DNS',
    toDo: "Correct the host in DATABASE_URL, or this machine's DNS (/etc/resolv.conf, /etc/hosts).",
    isAbsence: true,
  },
  {
    is: isOneOf('ECONNREFUSED', 'ENOENT'),
    what: 'The connection was refused: no PostgreSQL listens there',
    toDo: 'Start PostgreSQL, let it listen on that address (listen_addresses), or correct host and port in DATABASE_URL.',
    isAbsence: true,
  },
  {
    is: (code, message) =>
      /^(ETIMEDOUT|EHOSTUNREACH|ENETUNREACH)$/.test(code) ||
      /timeout exceeded|timeout expired|connection timeout/i.test(message),
    what: 'There was no answer in time',
    toDo: 'Check the host and the port in DATABASE_URL, and whether a firewall lets this machine through.',
    isAbsence: true,
  },
  {
    is: (code, message) => code === 'CERT_HAS_EXPIRED' || /certificate has expired/i.test(message),
    what: "TLS: the server's certificate has expired",
    toDo: 'Renew it on the server; if it is new, check the clock of this machine.',
  },
  {
    is: (code, message) => code === 'ERR_TLS_CERT_ALTNAME_INVALID' || /does not match certificate/i.test(message),
    what: "TLS: the server's certificate is for another host name",
    toDo: 'Put a host name that the certificate has into DATABASE_URL, or sslmode=verify-ca if names do not matter.',
  },
  {
    is: (_, message) => /certificate/i.test(message),
    what: "TLS: the server's certificate is not trusted",
    toDo: 'Name the file of its certificate authority as sslrootcert in DATABASE_URL, or in NODE_EXTRA_CA_CERTS.',
  },
  {
    is: (code, message) => /does not support SSL/i.test(message) || /^(EPROTO|ERR_SSL|ERR_TLS)/.test(code),
    what: 'TLS: DATABASE_URL asks for it, and the server does not offer it',
    toDo: 'Turn ssl on in PostgreSQL, or take sslmode out of DATABASE_URL if the network to it is private.',
  },
  {
    is: (code, message) => code === '28P01' || /password/i.test(message),
    what: 'The password is wrong or missing',
    toDo: 'Correct user and password in DATABASE_URL, or set the password (alter role NAME password …).',
  },
  {
    is: (code) => code.startsWith('28'),
    what: 'The server does not let this user in from here',
    toDo: 'Correct the user in DATABASE_URL, or allow it in pg_hba.conf of the server.',
  },
  {
    is: isOneOf('3D000'),
    what: 'There is no such database',
    toDo: 'Create it (createdb NAME), then run `leadpush migrate`; or correct its name in DATABASE_URL.',
  },
  {
    is: isOneOf('53300'),
    what: 'The server has no connection left',
    toDo: 'Raise max_connections, end idle sessions, or put a PgBouncer in transaction mode before it.',
  },
  {
    is: isOneOf('53100'),
    what: "The server's disk is full",
    toDo: `Make room on it; ${again}`,
  },
  {
    is: (code, message) => code === '53200' && /shared memory/.test(message),
    what: "The server's table of locks is full",
    toDo: `Raise max_locks_per_transaction in postgresql.conf, and start PostgreSQL anew; ${again}`,
  },
  {
    is: (code) => code.startsWith('53'),
    what: 'The server lacks memory or another resource',
    toDo: `Give it more of what its log says; ${again}`,
  },
  {
    is: isOneOf('57P03'),
    what: 'The server is starting, stopping or recovering',
    toDo: `Wait until it is ready; ${again}`,
    isAbsence: true,
  },
  {
    is: isOneOf('42501'),
    what: 'A right is missing',
    toDo: 'The user in DATABASE_URL must own the tables of leadpush, or have all rights to them.',
  },
  { is: isOneOf('25006'), what: 'The server is read-only', toDo: adviseOnReadOnly },
  {
    is: isOneOf('55P03'),
    what: 'A lock was not to be had',
    toDo: `Another program holds a lock on rows or a table of leadpush: wait for it, or end it (pg_stat_activity shows it); ${again}`,
  },
  {
    is: (code) => /^(57014|25P0[34])$/.test(code),
    what: 'The server ended a statement for its time limit',
    toDo: `Lift that limit for the user in DATABASE_URL, such as with \`alter role … set statement_timeout = 0\`; ${again}`,
  },
]

/** Undefined: an error of an unknown kind, which only has its own words. */
export const findDatabaseTrouble = (code: string, message: string): Trouble | undefined =>
  troubles.find(({ is }) => is(code, message))

/** What to do about an error; `isEmbedded`: the server is the one that this program starts. */
export function adviseOnDatabase(code: string, message: string, isEmbedded: boolean): string {
  const trouble = findDatabaseTrouble(code, message)
  if (isEmbedded && (trouble === undefined || trouble.isAbsence))
    return `\`leadpush validate\` says what is wrong with the embedded PostgreSQL; ${again}`
  return trouble?.toDo ?? `Check that PostgreSQL runs and that DATABASE_URL is right; ${again}`
}
