// Prints which version of Kafka franz-go takes a broker for, as `kcl misc probe-version` does.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"tailrace/tests/clients/record"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(os.Args[1]))
	record.Check(err)
	defer client.Close()
	request := kmsg.NewPtrApiVersionsRequest()
	request.ClientSoftwareName, request.ClientSoftwareVersion = "guess", "1"
	response, err := request.RequestWith(ctx, client)
	record.Check(err)
	fmt.Println(kversion.FromApiVersionsResponse(response).VersionGuess())
}
