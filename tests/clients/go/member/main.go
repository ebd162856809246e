// A member of a group through franz-go; ../../member.md says what it does.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"tailrace/tests/clients/record"
)

func main() {
	bootstrap, topic, group, assignor := os.Args[1], os.Args[2], os.Args[3], os.Args[5]
	sessionMs, err := strconv.Atoi(os.Args[6])
	record.Check(err)
	session := time.Duration(sessionMs) * time.Millisecond
	options := []kgo.Opt{kgo.SeedBrokers(bootstrap), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
		kgo.SessionTimeout(session), kgo.HeartbeatInterval(session / 4), kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(), kgo.FetchMaxWait(100 * time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}
	if assignor == "range" {
		options = append(options, kgo.Balancers(kgo.RangeBalancer()))
	}
	client, err := kgo.NewClient(options...)
	record.Check(err)
	out := bufio.NewWriter(os.Stdout)
	for {
		fetches := client.PollRecords(context.Background(), 500)
		// Errors of a fetch are of the moment: the client goes on by itself.
		fetches.EachRecord(func(r *kgo.Record) { fmt.Fprintln(out, r.Partition, r.Offset) })
		record.Check(out.Flush())
		if fetches.NumRecords() > 0 {
			// A refused commit is no error of ours; a member that never gets one through shows in the test.
			if err := client.CommitUncommittedOffsets(context.Background()); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}
		client.AllowRebalance()
	}
}
