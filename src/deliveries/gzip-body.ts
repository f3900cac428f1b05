/**
 * Builds the body of `buildBody` as one gzip member (contract 4.17). Leads of one place form blocks; each is deflated alone, ends
 * at a byte boundary and is cached, so that a body mostly joins blocks that earlier users had. Its CRC-32 is combined from those
 * of the blocks.
 */
import { constants, crc32, deflateRawSync } from 'node:zlib'
import { LRUCache } from 'lru-cache'
import type { LeadWithJson } from '../leads/lead-store.ts'
import { BodyBuffers, frame, groupByPlace } from './body.ts'
import { combineCrcs, findCrcShift } from './crc.ts'

/** A stretch of a body as whole deflate blocks, which are not the last and refer to nothing before them. */
interface Block {
  deflated: Uint8Array
  /** Its bytes before compressing. */
  bytes: number
  crc: number
  /** For `combineCrcs`: moves the CRC of the bytes before this stretch over it. */
  shift: number
}

const blockCacheBytesMax = 16 * 1024 * 1024
/** The cost of an entry besides its bytes: the objects, the key, the links. */
const entryBytes = 500
const keptBlockBytesMax = 256 * 1024

/** A block ends at the latest after this many leads, or this many bytes. */
const blockLeadsMax = 64
const blockBytesMax = 64 * 1024
/** One version in this many always ends its block, so that lists which differ in one lead share the blocks after it. */
const endsOneIn = 32
const level = 6
/** Up to this many bytes are stored without compression. */
const storedBytesMax = 256

/** Without name, time and system, so that the bytes are the same everywhere. */
const header = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff])
const trailerBytes = 8

const endsBlock = (versionId: number) => (Math.imul(versionId, 0x9e3779b1) >>> 0) % endsOneIn === 0

/** An uncompressed block, of at most 65,535 bytes. */
function store(content: Buffer, isLast: boolean): Buffer {
  const head = Buffer.from([isLast ? 1 : 0, 0, 0, 0, 0])
  head.writeUInt16LE(content.length, 1)
  head.writeUInt16LE(~content.length & 0xffff, 3)
  return Buffer.concat([head, content])
}

function deflate(content: Buffer): Block {
  const deflated =
    content.length <= storedBytesMax
      ? store(content, false)
      : deflateRawSync(content, { level, finishFlush: constants.Z_SYNC_FLUSH })
  const { length: bytes } = content
  // its own bytes: zlib's result may be a slice that keeps a much larger buffer in memory
  return { deflated: new Uint8Array(deflated), bytes, crc: crc32(content), shift: findCrcShift(bytes) }
}

const comma = Buffer.from(',')

/** Joins leads with a comma after each; in the last block of a body the last lead has none. */
function joinLeads(leads: readonly LeadWithJson[], isLast: boolean): Buffer {
  const pieces = leads.flatMap(({ json }) => [json, comma])
  return Buffer.concat(isLast ? pieces.slice(0, -1) : pieces)
}

/** Cuts the leads of a body, in the order of `buildBody`, into blocks. A cut depends only on earlier leads of the same place. */
function cutIntoBlocks(leads: readonly LeadWithJson[]): LeadWithJson[][] {
  const blocks: LeadWithJson[][] = []
  for (const group of groupByPlace(leads)) {
    let block: LeadWithJson[] = []
    let bytes = 0
    for (const lead of group) {
      block.push(lead)
      bytes += lead.json.length
      if (!endsBlock(lead.versionId) && block.length < blockLeadsMax && bytes < blockBytesMax) continue
      blocks.push(block)
      block = []
      bytes = 0
    }
    if (block.length > 0) blocks.push(block)
  }
  return blocks
}

function buildKey(leads: readonly LeadWithJson[], isLast: boolean): string {
  let key = isLast ? 'last' : ''
  for (const { versionId } of leads) key += `,${versionId}`
  return key
}

/** Builds compressed bodies, with a cache of their blocks. */
export class GzipBodies {
  private readonly cache = new LRUCache<string, Block>({
    maxSize: blockCacheBytesMax,
    sizeCalculation: ({ deflated }, key) => entryBytes + deflated.length + key.length,
  })

  /** Drops all blocks: listings in them were erased. */
  clear(): void {
    this.cache.clear()
  }

  /**
   * `bytes`: the planned length of the body before compression. The result is the beginning of one of `buffers`.
   * Throws a RangeError if the body has another length.
   */
  build(queryList: string, leads: readonly LeadWithJson[], bytes: number, buffers = new BodyBuffers()): Buffer {
    const { head, tail } = frame(queryList)
    const lists = cutIntoBlocks(leads)
    const blocks = [deflate(head), ...lists.map((list, index) => this.find(list, index === lists.length - 1))]
    let length = header.length + 5 + tail.length + trailerBytes
    let [plainBytes, crc] = [0, 0]
    for (const block of blocks) {
      length += block.deflated.length
      plainBytes += block.bytes
      crc = combineCrcs(crc, block)
    }
    plainBytes += tail.length
    if (plainBytes !== bytes) throw new RangeError(`a body of ${plainBytes} bytes was planned with ${bytes}`)
    const member = buffers.take(length).subarray(0, length)
    let at = 0
    const put = (piece: Uint8Array) => {
      member.set(piece, at)
      at += piece.length
    }
    put(header)
    for (const { deflated } of blocks) put(deflated)
    put(store(tail, true))
    member.writeUInt32LE(crc32(tail, crc), at)
    member.writeUInt32LE(bytes, at + 4)
    return member
  }

  private find(leads: readonly LeadWithJson[], isLast: boolean): Block {
    const key = buildKey(leads, isLast)
    const known = this.cache.get(key)
    if (known) return known
    const block = deflate(joinLeads(leads, isLast))
    if (block.deflated.length <= keptBlockBytesMax) this.cache.set(key, block)
    return block
  }
}
