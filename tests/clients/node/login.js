// A secured client through kafkajs; ../security/login.md says what it does.
'use strict'

const { readFileSync } = require('fs')
const { Kafka, logLevel } = require('kafkajs')

const [file, topic, count, pauseMs] = process.argv.slice(2)
const access = JSON.parse(readFileSync(file))
const wanted = Number(count)

function sasl() {
  if (!access.protocol.startsWith('SASL')) return undefined
  const mechanism = access.mechanism.toLowerCase()
  if (mechanism === 'oauthbearer') return { mechanism, oauthBearerProvider: async () => ({ value: access.token }) }
  return { mechanism, username: access.user, password: access.password }
}

function ssl() {
  if (!access.protocol.endsWith('SSL')) return undefined
  const own = access.key ? { key: readFileSync(access.key), cert: readFileSync(access.certificate) } : {}
  return { ca: [readFileSync(access.trust)], ...own }
}

const kafka = new Kafka({
  clientId: access.client_id,
  brokers: [access.bootstrap],
  ssl: ssl(),
  sasl: sasl(),
  logLevel: logLevel.NOTHING,
  retry: { initialRetryTime: 50, retries: 3 },
})

async function write() {
  const producer = kafka.producer()
  await producer.connect()
  for (let index = 0; index < wanted; index++) {
    await producer.send({ topic, messages: [{ value: String(index) }] })
    await new Promise(resolve => setTimeout(resolve, Number(pauseMs)))
  }
  await producer.disconnect()
}

async function read() {
  const consumer = kafka.consumer({ groupId: `${topic}-group` })
  const values = []
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
    consumer.run({
      eachMessage: async ({ message }) => {
        values.push(message.value.toString())
        if (values.length === wanted) resolve()
      },
    })
  })
  await consumer.disconnect()
  return values
}

async function main() {
  const admin = kafka.admin()
  await admin.connect()
  await admin.createTopics({ topics: [{ topic, numPartitions: 1 }] })
  await admin.disconnect()
  await write()
  return { values: await read() }
}

main()
  .catch(error => ({ refused: `${error.name}: ${error.message}; ${error.cause || ''}` }))
  .then(report => {
    console.log(JSON.stringify(report))
    process.exit(0)
  })
