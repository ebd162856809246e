// A copier through franz-go; ../../copier.md says what it does.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"tailrace/tests/clients/record"
)

const (
	abortEvery = 3
	giveUp     = 3
	batchMax   = 50
)

func say(words ...any) {
	line := fmt.Sprintln(append([]any{time.Now().UnixMicro()}, words...)...)
	_, err := os.Stdout.WriteString(line)
	record.Check(err)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(giveUp)
}

func main() {
	bootstrap, source, target, group, id, name := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5], os.Args[6]
	sessionMs, err := strconv.Atoi(os.Args[8])
	record.Check(err)
	session := time.Duration(sessionMs) * time.Millisecond
	say("init")
	copier, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(strings.Split(bootstrap, ",")...),
		kgo.TransactionalID(id), kgo.TransactionTimeout(10*time.Second), kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(source), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.RequireStableFetchOffsets(),
		kgo.SessionTimeout(session), kgo.HeartbeatInterval(session/4), kgo.FetchMaxWait(100*time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		fail(err)
	}
	// The client asks for its id when it first sends something; here it fences others before it reads.
	if _, _, err := copier.Client().ProducerID(context.Background()); err != nil {
		fail(err)
	}
	say("ready")
	for number := 1; ; number++ {
		fetches := copier.PollRecords(context.Background(), batchMax)
		for fetches.NumRecords() == 0 {
			fetches = copier.PollRecords(context.Background(), batchMax)
		}
		transact(copier, fetches, target, name, number)
	}
}

func transact(copier *kgo.GroupTransactSession, fetches kgo.Fetches, target, name string, number int) {
	say("begin", number)
	if err := copier.Begin(); err != nil {
		fail(err)
	}
	failed := send(copier, fetches, target, name, number)
	if failed || number%abortEvery == 0 {
		say("abort", number)
		if _, err := copier.End(context.Background(), kgo.TryAbort); err != nil {
			fail(err)
		}
		say("aborted", number)
		return
	}
	say("commit", number)
	committed, err := copier.End(context.Background(), kgo.TryCommit)
	switch {
	case committed:
		say("committed", number)
	case err != nil:
		fail(err)
	default:
		say("refused", number)
	}
}

// Whether a record could not be sent.
func send(copier *kgo.GroupTransactSession, fetches kgo.Fetches, target, name string, number int) bool {
	promise := kgo.AbortingFirstErrPromise(copier.Client())
	offsets := map[int32]int64{}
	fetches.EachRecord(func(r *kgo.Record) {
		value := fmt.Sprintf("%s %d %d %s %d", strings.ToUpper(string(r.Value)), r.Partition, r.Offset, name, number)
		made := &kgo.Record{Topic: target, Partition: r.Partition, Key: r.Key, Value: []byte(value)}
		copier.Produce(context.Background(), made, promise.Promise())
		offsets[r.Partition] = r.Offset + 1
	})
	// The session sends them when it ends; a line now says so early, which no reader can tell from the truth.
	words := []any{"offsets", number}
	for partition, offset := range offsets {
		words = append(words, fmt.Sprintf("%d:%d", partition, offset))
	}
	say(words...)
	if err := promise.Err(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return true
	}
	return false
}
