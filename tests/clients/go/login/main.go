// A secured client through franz-go; ../../security/login.md says what it does.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"tailrace/tests/clients/record"
)

type access struct {
	Bootstrap, Protocol, Mechanism, User, Password, Token, Trust, Certificate, Key string
	ClientID                                                                       string `json:"client_id"`
	IsDelegationToken                                                              bool   `json:"is_delegation_token"`
}

func main() {
	text, err := os.ReadFile(os.Args[1])
	record.Check(err)
	var found access
	record.Check(json.Unmarshal(text, &found))
	topic := os.Args[2]
	count, err := strconv.Atoi(os.Args[3])
	record.Check(err)
	pauseMs, err := strconv.Atoi(os.Args[4])
	record.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	values, err := use(ctx, found, topic, count, time.Duration(pauseMs)*time.Millisecond)
	report := map[string]any{"values": values}
	if err != nil {
		report = map[string]any{"refused": err.Error()}
	}
	line, err := json.Marshal(report)
	record.Check(err)
	fmt.Println(string(line))
}

func use(ctx context.Context, found access, topic string, count int, pause time.Duration) ([]string, error) {
	options := append(secured(found), kgo.SeedBrokers(found.Bootstrap), kgo.ClientID(found.ClientID),
		kgo.AllowAutoTopicCreation())
	producer, err := kgo.NewClient(options...)
	record.Check(err)
	defer producer.Close()
	// A producer would try again until its context ends.
	if err := producer.Ping(ctx); err != nil {
		return nil, err
	}
	for index := range count {
		made := &kgo.Record{Topic: topic, Value: []byte(strconv.Itoa(index))}
		if err := producer.ProduceSync(ctx, made).FirstErr(); err != nil {
			return nil, err
		}
		time.Sleep(pause)
	}
	consumer, err := kgo.NewClient(append(options, kgo.ConsumerGroup(topic+"-group"), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit())...)
	record.Check(err)
	defer consumer.Close()
	values := []string{}
	for len(values) < count && ctx.Err() == nil {
		consumer.PollFetches(ctx).EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
	}
	return values, consumer.CommitUncommittedOffsets(ctx)
}

func secured(found access) []kgo.Opt {
	options := []kgo.Opt{}
	if strings.HasSuffix(found.Protocol, "SSL") {
		options = append(options, kgo.DialTLSConfig(tlsConfig(found)))
	}
	if strings.HasPrefix(found.Protocol, "SASL") {
		options = append(options, kgo.SASL(mechanism(found)))
	}
	return options
}

func mechanism(found access) sasl.Mechanism {
	password := scram.Auth{User: found.User, Pass: found.Password, IsToken: found.IsDelegationToken}
	switch found.Mechanism {
	case "PLAIN":
		return plain.Auth{User: found.User, Pass: found.Password}.AsMechanism()
	case "OAUTHBEARER":
		return oauth.Auth{Token: found.Token}.AsMechanism()
	case "SCRAM-SHA-256":
		return password.AsSha256Mechanism()
	}
	return password.AsSha512Mechanism()
}

func tlsConfig(found access) *tls.Config {
	trusted, err := os.ReadFile(found.Trust)
	record.Check(err)
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(trusted)
	if found.Certificate != "" {
		own, err := tls.LoadX509KeyPair(found.Certificate, found.Key)
		record.Check(err)
		config.Certificates = []tls.Certificate{own}
	}
	return config
}
