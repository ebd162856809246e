// A member of a group through kafkajs; ../member.md says what it does.
//
// kafkajs has an assignor of its own name only. To share a group with other clients it is given `range`.
'use strict'

const { AssignerProtocol, Kafka, PartitionAssigners, logLevel } = require('kafkajs')

const [bootstrap, topic, groupId, , assignor, sessionMs] = process.argv.slice(2)
const kafka = new Kafka({ clientId: 'member', brokers: [bootstrap], logLevel: logLevel.NOTHING })

const range = ({ cluster }) => ({
  name: 'range',
  version: 0,
  async assign({ members, topics }) {
    const ids = members.map(member => member.memberId).sort()
    const assignments = Object.fromEntries(ids.map(id => [id, {}]))
    for (const name of topics) {
      const partitions = cluster.findTopicPartitionMetadata(name).map(one => one.partitionId).sort((a, b) => a - b)
      const least = Math.floor(partitions.length / ids.length)
      const longer = partitions.length % ids.length
      let next = 0
      ids.forEach((id, position) => {
        const count = least + (position < longer ? 1 : 0)
        assignments[id][name] = partitions.slice(next, next + count)
        next += count
      })
    }
    return ids.map(memberId => ({
      memberId,
      memberAssignment: AssignerProtocol.MemberAssignment.encode({ version: 0, assignment: assignments[memberId] }),
    }))
  },
  protocol({ topics }) {
    return { name: 'range', metadata: AssignerProtocol.MemberMetadata.encode({ version: 0, topics }) }
  },
})

function print(lines) {
  return new Promise((resolve, reject) => process.stdout.write(lines, error => (error ? reject(error) : resolve())))
}

async function eachBatch({ batch, resolveOffset, commitOffsetsIfNecessary, heartbeat }) {
  await print(batch.messages.map(message => `${batch.partition} ${message.offset}\n`).join(''))
  resolveOffset(batch.lastOffset())
  await commitOffsetsIfNecessary({
    topics: [{ topic, partitions: [{ partition: batch.partition, offset: String(BigInt(batch.lastOffset()) + 1n) }] }],
  })
  await heartbeat()
}

async function main() {
  const consumer = kafka.consumer({
    groupId,
    sessionTimeout: Number(sessionMs),
    heartbeatInterval: Number(sessionMs) / 4,
    maxWaitTimeInMs: 100,
    partitionAssigners: assignor === 'range' ? [range] : [PartitionAssigners.roundRobin],
    retry: { initialRetryTime: 50, retries: 20 },
  })
  // What kafkajs cannot retry itself ends the program, and the test.
  consumer.on(consumer.events.CRASH, ({ payload }) => {
    if (!payload.restart) process.exit(1)
  })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({ autoCommit: false, eachBatch })
}

main().catch(error => {
  console.error(error)
  process.exit(1)
})
