// The workload of ../../workload.md through sarama.
package main

import (
	"maps"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/IBM/sarama"

	"tailrace/tests/clients/record"
)

func main() {
	record.Run(version(), map[string]func(string, string) record.Report{"write": write, "read": read, "change": change})
}

func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "github.com/IBM/sarama" {
			return strings.TrimPrefix(module.Version, "v")
		}
	}
	return "unknown"
}

func settings() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Flush.Frequency = 20 * time.Millisecond
	// Retries could change the order of records in a partition.
	config.Net.MaxOpenRequests = 1
	return config
}

func administer(bootstrap string) sarama.ClusterAdmin {
	admin, err := sarama.NewClusterAdmin([]string{bootstrap}, settings())
	record.Check(err)
	return admin
}

func write(bootstrap, topic string) record.Report {
	admin := administer(bootstrap)
	defer admin.Close()
	forever := "-1"
	detail := &sarama.TopicDetail{NumPartitions: record.Partitions, ReplicationFactor: -1,
		ConfigEntries: map[string]*string{"retention.ms": &forever}}
	record.Check(admin.CreateTopic(topic, detail, false))
	partitions := record.Eventually(func() int { return partitionCount(admin, topic) },
		func(count int) bool { return count == record.Partitions })
	config := configs(admin, topic, "retention.ms", "cleanup.policy")
	produced := 0
	for codec := range record.Codecs {
		produced += produce(bootstrap, topic, codec)
	}
	return record.Report{"partitions": partitions, "config": config, "produced": produced}
}

func produce(bootstrap, topic string, codec int) int {
	config := settings()
	config.Producer.Compression = []sarama.CompressionCodec{sarama.CompressionNone, sarama.CompressionGZIP,
		sarama.CompressionSnappy, sarama.CompressionLZ4, sarama.CompressionZSTD}[codec]
	producer, err := sarama.NewSyncProducer([]string{bootstrap}, config)
	record.Check(err)
	defer producer.Close()
	var sent []*sarama.ProducerMessage
	for i := codec * record.PerCodec; i < (codec+1)*record.PerCodec; i++ {
		r := record.New(i)
		out := &sarama.ProducerMessage{Topic: topic, Partition: r.Partition, Timestamp: time.UnixMilli(r.TimestampMs),
			Key: encoder(r.Key), Value: encoder(r.Value)}
		for _, h := range r.Headers {
			out.Headers = append(out.Headers, sarama.RecordHeader{Key: []byte(h.Key), Value: h.Value})
		}
		sent = append(sent, out)
	}
	record.Check(producer.SendMessages(sent))
	return len(sent)
}

// encoder keeps null apart from empty: sarama takes a nil interface for null.
func encoder(data []byte) sarama.Encoder {
	if data == nil {
		return nil
	}
	return sarama.ByteEncoder(data)
}

func read(bootstrap, topic string) record.Report {
	client, err := sarama.NewClient([]string{bootstrap}, settings())
	record.Check(err)
	defer client.Close()
	consumer, err := sarama.NewConsumerFromClient(client)
	record.Check(err)
	defer consumer.Close()
	var records []record.Record
	seek := map[string][]int64{}
	for partition := range int32(record.Partitions) {
		end := offset(client, topic, partition, sarama.OffsetNewest)
		records = append(records, consume(consumer, topic, partition, end)...)
		for _, at := range record.SeekMs {
			name := strconv.Itoa(int(partition))
			seek[name] = append(seek[name], offset(client, topic, partition, at))
		}
	}
	return record.Report{"count": len(records), "digest": record.Digest(records), "seek": seek}
}

func offset(client sarama.Client, topic string, partition int32, at int64) int64 {
	found, err := client.GetOffset(topic, partition, at)
	record.Check(err)
	return found
}

func consume(consumer sarama.Consumer, topic string, partition int32, end int64) []record.Record {
	stream, err := consumer.ConsumePartition(topic, partition, 0)
	record.Check(err)
	defer stream.Close()
	var records []record.Record
	for int64(len(records)) < end {
		m := <-stream.Messages()
		in := record.Record{Partition: m.Partition, Offset: m.Offset, TimestampMs: m.Timestamp.UnixMilli(), Key: m.Key, Value: m.Value}
		for _, h := range m.Headers {
			in.Headers = append(in.Headers, record.Header{Key: string(h.Key), Value: h.Value})
		}
		records = append(records, in)
	}
	return records
}

func change(bootstrap, topic string) record.Report {
	admin := administer(bootstrap)
	defer admin.Close()
	large := "1234567"
	record.Check(admin.IncrementalAlterConfig(sarama.TopicResource, topic, map[string]sarama.IncrementalAlterConfigsEntry{
		"max.message.bytes": {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &large}}, false))
	wanted := map[string]string{"retention.ms": "-1", "max.message.bytes": large}
	config := record.Eventually(func() map[string]string { return configs(admin, topic, "retention.ms", "max.message.bytes") },
		func(found map[string]string) bool { return maps.Equal(found, wanted) })
	record.Check(admin.CreatePartitions(topic, 5, nil, false))
	partitions := record.Eventually(func() int { return partitionCount(admin, topic) }, func(count int) bool { return count == 5 })
	record.Check(admin.DeleteRecords(topic, map[int32]int64{0: 100}))
	client, err := sarama.NewClient([]string{bootstrap}, settings())
	record.Check(err)
	earliest := offset(client, topic, 0, sarama.OffsetOldest)
	client.Close()
	record.Check(admin.DeleteTopic(topic))
	gone := record.Eventually(func() bool { return isGone(admin, topic) }, func(found bool) bool { return found })
	return record.Report{"config": config, "partitions": partitions, "earliest": earliest, "gone": gone}
}

func isGone(admin sarama.ClusterAdmin, topic string) bool {
	topics, err := admin.ListTopics()
	record.Check(err)
	_, found := topics[topic]
	return !found
}

func partitionCount(admin sarama.ClusterAdmin, topic string) int {
	topics, err := admin.DescribeTopics([]string{topic})
	record.Check(err)
	count := 0
	for _, partition := range topics[0].Partitions {
		if partition.Err == sarama.ErrNoError && partition.Leader >= 0 {
			count++
		}
	}
	return count
}

func configs(admin sarama.ClusterAdmin, topic string, names ...string) map[string]string {
	entries, err := admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: topic, ConfigNames: names})
	record.Check(err)
	found := map[string]string{}
	for _, entry := range entries {
		found[entry.Name] = entry.Value
	}
	return found
}
