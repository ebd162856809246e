// The workload of ../workload.md through kafkajs.
//
// kafkajs can only read as a member of a consumer group. A broker that has no groups gets the
// fourth argument `no-groups`; then the phase `read` asks for the offsets by time and leaves
// count and digest out.
'use strict'

const crypto = require('crypto')
const { Kafka, CompressionTypes, CompressionCodecs, logLevel } = require('kafkajs')
const SnappyCodec = require('kafkajs-snappy')
const lz4 = require('lz4-napi')
const { ZstdCodec } = require('zstd-codec')

const PARTITIONS = 3
const PER_CODEC = 2000
const START_MS = 1_700_000_000_000
const SEEK_MS = [START_MS, START_MS + 4321, START_MS + 9999, START_MS + 10_000]
const CODECS = ['None', 'GZIP', 'Snappy', 'LZ4', 'ZSTD']

const [phase, bootstrap, topic, groups] = process.argv.slice(2)
const kafka = new Kafka({ clientId: 'workload', brokers: [bootstrap], logLevel: logLevel.ERROR })

function registerCodecs() {
  CompressionCodecs[CompressionTypes.Snappy] = SnappyCodec
  CompressionCodecs[CompressionTypes.LZ4] = () => ({
    compress: encoder => lz4.compressFrame(encoder.buffer),
    decompress: buffer => lz4.decompressFrame(buffer),
  })
  return new Promise(resolve =>
    ZstdCodec.run(zstd => {
      const streaming = new zstd.Streaming()
      CompressionCodecs[CompressionTypes.ZSTD] = () => ({
        compress: async encoder => Buffer.from(streaming.compress(encoder.buffer)),
        decompress: async buffer => Buffer.from(streaming.decompress(buffer)),
      })
      resolve()
    })
  )
}

function key(i) {
  if (i % 10 === 3) return null
  return i % 10 === 9 ? Buffer.alloc(0) : Buffer.from(`key-${i}`)
}

function value(i) {
  if (i % 10 === 5) return null
  const length = i % 10 === 7 ? 0 : (i * 37) % 300
  return Buffer.from(Array.from({ length }, (_, j) => (31 * i + 7 * j) % 256))
}

function headers(i) {
  return [
    {},
    { trace: Buffer.from(String(i)) },
    // kafkajs fails on a header whose value is null.
    { empty: Buffer.alloc(0), null: Buffer.alloc(0) },
    { twin: [Buffer.from('1'), Buffer.from('2')] },
    { binary: Buffer.from([0, 255, i % 256]), ключ: Buffer.from('значение') },
  ][i % 5]
}

async function withAdmin(action) {
  const admin = kafka.admin()
  await admin.connect()
  try {
    return await action(admin)
  } finally {
    await admin.disconnect()
  }
}

// A change that the controller has confirmed reaches a broker's own view a moment later.
async function eventually(look, wanted) {
  const deadline = Date.now() + 15_000
  for (;;) {
    try {
      const seen = await look()
      if (wanted(seen) || Date.now() > deadline) return seen
    } catch (error) {
      if (!error.retriable || Date.now() > deadline) throw error
    }
    await new Promise(resolve => setTimeout(resolve, 20))
  }
}

async function partitionCount(admin) {
  const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
  return topics[0].partitions.filter(partition => partition.leader >= 0).length
}

async function configs(admin, names) {
  const described = await admin.describeConfigs({
    includeSynonyms: false,
    resources: [{ type: 2, name: topic, configNames: names }],
  })
  return Object.fromEntries(described.resources[0].configEntries.map(e => [e.configName, e.configValue]))
}

async function write() {
  const report = await withAdmin(async admin => {
    const configEntries = [{ name: 'retention.ms', value: '-1' }]
    await admin.createTopics({
      topics: [{ topic, numPartitions: PARTITIONS, replicationFactor: -1, configEntries }],
      waitForLeaders: true,
    })
    const partitions = await eventually(() => partitionCount(admin), count => count === PARTITIONS)
    return { partitions, config: await configs(admin, ['retention.ms', 'cleanup.policy']) }
  })
  const producer = kafka.producer()
  await producer.connect()
  let produced = 0
  for (let codec = 0; codec < CODECS.length; codec++) {
    const messages = Array.from({ length: PER_CODEC }, (_, n) => {
      const i = codec * PER_CODEC + n
      return { partition: i % 3, timestamp: String(START_MS + i), key: key(i), value: value(i), headers: headers(i) }
    })
    await producer.send({ topic, acks: -1, compression: CompressionTypes[CODECS[codec]], messages })
    produced += messages.length
  }
  await producer.disconnect()
  return { ...report, produced }
}

async function read() {
  const seek = await withAdmin(async admin => {
    const found = {}
    const ends = new Map((await admin.fetchTopicOffsets(topic)).map(p => [p.partition, p.high]))
    for (const time of SEEK_MS) {
      for (const { partition, offset } of await admin.fetchTopicOffsetsByTimestamp(topic, time)) {
        // kafkajs says the end offset where the broker says that there is none.
        const none = offset === ends.get(partition)
        found[partition] = [...(found[partition] || []), none ? -1 : Number(offset)]
      }
    }
    return found
  })
  if (groups === 'no-groups') return { seek }
  const records = await consumeAll()
  return { count: records.length, digest: digest(records), seek }
}

async function consumeAll() {
  const ends = await withAdmin(admin => admin.fetchTopicOffsets(topic))
  const wanted = ends.reduce((sum, partition) => sum + Number(partition.high), 0)
  const consumer = kafka.consumer({ groupId: `group-${topic}` })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  const records = []
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, event => reject(event.payload.error))
    consumer
      .run({
        autoCommit: false,
        eachBatch: async ({ batch }) => {
          for (const message of batch.messages) records.push({ partition: batch.partition, ...message })
          if (records.length >= wanted) resolve()
        },
      })
      .catch(reject)
  })
  await consumer.disconnect()
  return records
}

function int32(number) {
  const buffer = Buffer.alloc(4)
  buffer.writeInt32BE(number)
  return buffer
}

function int64(number) {
  const buffer = Buffer.alloc(8)
  buffer.writeBigInt64BE(BigInt(number))
  return buffer
}

function sized(data) {
  return data === null || data === undefined ? int32(-1) : Buffer.concat([int32(data.length), data])
}

function digest(records) {
  records.sort((a, b) => a.partition - b.partition || Number(a.offset) - Number(b.offset))
  const sha = crypto.createHash('sha256')
  for (const record of records) {
    const pairs = Object.entries(record.headers || {}).flatMap(([name, found]) =>
      Array.isArray(found) ? found.map(one => [name, one]) : [[name, found]]
    )
    sha.update(Buffer.concat([int32(record.partition), int64(record.offset), int64(record.timestamp)]))
    sha.update(Buffer.concat([sized(record.key), sized(record.value), int32(pairs.length)]))
    for (const [name, found] of pairs) sha.update(Buffer.concat([sized(Buffer.from(name)), sized(found)]))
  }
  return sha.digest('hex')
}

async function change() {
  return withAdmin(async admin => {
    const wanted = { 'retention.ms': '-1', 'max.message.bytes': '1234567' }
    const configEntries = Object.entries(wanted).map(([name, value]) => ({ name, value }))
    await admin.alterConfigs({ validateOnly: false, resources: [{ type: 2, name: topic, configEntries }] })
    const config = await eventually(
      () => configs(admin, Object.keys(wanted)),
      found => found['max.message.bytes'] === wanted['max.message.bytes']
    )
    await admin.createPartitions({ topicPartitions: [{ topic, count: 5 }] })
    const partitions = await eventually(() => partitionCount(admin), count => count === 5)
    // Deleting records looks up the offsets of every partition first, so all must have their leader.
    await eventually(() => admin.fetchTopicOffsets(topic), found => found.length === 5)
    await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '100' }] })
    const offsets = await admin.fetchTopicOffsets(topic)
    const earliest = Number(offsets.find(({ partition }) => partition === 0).low)
    await admin.deleteTopics({ topics: [topic] })
    const gone = await eventually(async () => !(await admin.listTopics()).includes(topic), found => found)
    return { config, partitions, earliest, gone }
  })
}

async function main() {
  await registerCodecs()
  const report = await { write, read, change }[phase]()
  console.log(JSON.stringify({ version: require('kafkajs/package.json').version, ...report }))
}

main().then(
  () => process.exit(0),
  error => {
    console.error(error)
    process.exit(1)
  }
)
