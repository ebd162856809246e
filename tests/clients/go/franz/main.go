// The workload of ../../workload.md through franz-go.
package main

import (
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"tailrace/tests/clients/record"
)

var ctx, cancel = context.WithTimeout(context.Background(), 90*time.Second)

func main() {
	defer cancel()
	record.Run(version(), map[string]func(string, string) record.Report{"write": write, "read": read, "change": change})
}

func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "github.com/twmb/franz-go" {
			return strings.TrimPrefix(module.Version, "v")
		}
	}
	return "unknown"
}

func connect(bootstrap string, options ...kgo.Opt) *kgo.Client {
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(bootstrap))...)
	record.Check(err)
	return client
}

func write(bootstrap, topic string) record.Report {
	client := connect(bootstrap)
	defer client.Close()
	admin := kadm.NewClient(client)
	_, err := admin.CreateTopic(ctx, record.Partitions, -1, map[string]*string{"retention.ms": kadm.StringPtr("-1")}, topic)
	record.Check(err)
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
	codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(),
		kgo.Lz4Compression(), kgo.ZstdCompression()}
	client := connect(bootstrap, kgo.ProducerBatchCompression(codecs[codec]), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(20*time.Millisecond))
	defer client.Close()
	var sent []*kgo.Record
	for i := codec * record.PerCodec; i < (codec+1)*record.PerCodec; i++ {
		r := record.New(i)
		out := &kgo.Record{Topic: topic, Partition: r.Partition, Key: r.Key, Value: r.Value,
			Timestamp: time.UnixMilli(r.TimestampMs)}
		for _, h := range r.Headers {
			out.Headers = append(out.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
		sent = append(sent, out)
	}
	results := client.ProduceSync(ctx, sent...)
	record.Check(results.FirstErr())
	return len(results)
}

func read(bootstrap, topic string) record.Report {
	assigned := map[int32]kgo.Offset{}
	for partition := range int32(record.Partitions) {
		assigned[partition] = kgo.NewOffset().At(0)
	}
	client := connect(bootstrap, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: assigned}))
	defer client.Close()
	admin := kadm.NewClient(client)
	ends, err := admin.ListEndOffsets(ctx, topic)
	record.Check(err)
	wanted := 0
	ends.Each(func(end kadm.ListedOffset) { wanted += int(end.Offset) })
	var records []record.Record
	for len(records) < wanted {
		fetches := client.PollFetches(ctx)
		record.Check(fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) { records = append(records, received(r)) })
	}
	return record.Report{"count": len(records), "digest": record.Digest(records), "seek": seek(admin, topic)}
}

func received(r *kgo.Record) record.Record {
	in := record.Record{Partition: r.Partition, Offset: r.Offset, TimestampMs: r.Timestamp.UnixMilli(), Key: r.Key, Value: r.Value}
	for _, h := range r.Headers {
		in.Headers = append(in.Headers, record.Header{Key: h.Key, Value: h.Value})
	}
	return in
}

func seek(admin *kadm.Client, topic string) map[string][]int64 {
	found := map[string][]int64{}
	for _, at := range record.SeekMs {
		// kadm turns "none" into the end offset; the timestamp tells them apart.
		offsets, err := admin.ListOffsetsAfterMilli(ctx, at, topic)
		record.Check(err)
		record.Check(offsets.Error())
		for partition := range int32(record.Partitions) {
			listed, _ := offsets.Lookup(topic, partition)
			if listed.Timestamp < 0 {
				listed.Offset = -1
			}
			name := strconv.Itoa(int(partition))
			found[name] = append(found[name], listed.Offset)
		}
	}
	return found
}

func change(bootstrap, topic string) record.Report {
	client := connect(bootstrap)
	defer client.Close()
	admin := kadm.NewClient(client)
	alter := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: kadm.StringPtr("1234567")}}
	altered, err := admin.AlterTopicConfigs(ctx, alter, topic)
	record.Check(err)
	record.Check(altered[0].Err)
	wanted := map[string]string{"retention.ms": "-1", "max.message.bytes": "1234567"}
	config := record.Eventually(func() map[string]string { return configs(admin, topic, "retention.ms", "max.message.bytes") },
		func(found map[string]string) bool { return maps.Equal(found, wanted) })
	grown, err := admin.UpdatePartitions(ctx, 5, topic)
	record.Check(err)
	record.Check(grown.Error())
	partitions := record.Eventually(func() int { return partitionCount(admin, topic) }, func(count int) bool { return count == 5 })
	before := kadm.Offsets{}
	before.AddOffset(topic, 0, 100, -1)
	deleted, err := admin.DeleteRecords(ctx, before)
	record.Check(err)
	record.Check(deleted.Error())
	starts, err := admin.ListStartOffsets(ctx, topic)
	record.Check(err)
	earliest, _ := starts.Lookup(topic, 0)
	_, err = admin.DeleteTopic(ctx, topic)
	record.Check(err)
	gone := record.Eventually(func() bool { return isGone(admin, topic) }, func(found bool) bool { return found })
	return record.Report{"config": config, "partitions": partitions, "earliest": earliest.Offset, "gone": gone}
}

func isGone(admin *kadm.Client, topic string) bool {
	topics, err := admin.ListTopics(ctx)
	record.Check(err)
	return !topics.Has(topic)
}

func partitionCount(admin *kadm.Client, topic string) int {
	topics, err := admin.ListTopics(ctx, topic)
	record.Check(err)
	count := 0
	for _, partition := range topics[topic].Partitions {
		if partition.Err == nil && partition.Leader >= 0 {
			count++
		}
	}
	return count
}

func configs(admin *kadm.Client, topic string, names ...string) map[string]string {
	described, err := admin.DescribeTopicConfigs(ctx, topic)
	record.Check(err)
	resource, err := described.On(topic, nil)
	record.Check(err)
	record.Check(resource.Err)
	found := map[string]string{}
	for _, config := range resource.Configs {
		for _, name := range names {
			if config.Key == name {
				found[name] = config.MaybeValue()
			}
		}
	}
	if len(found) != len(names) {
		record.Check(fmt.Errorf("described only %v", found))
	}
	return found
}
