// Package record holds the records and the digest of ../../workload.md for the Go clients.
package record

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strconv"
	"time"
)

const (
	PerCodec   = 2000
	StartMs    = int64(1_700_000_000_000)
	Partitions = 3
)

var (
	Codecs = []string{"none", "gzip", "snappy", "lz4", "zstd"}
	SeekMs = []int64{StartMs, StartMs + 4321, StartMs + 9999, StartMs + 10_000}
)

// Header is one header; a nil Value stands for null.
type Header struct {
	Key   string
	Value []byte
}

// Record is one record and its place; a nil Key or Value stands for null.
type Record struct {
	Partition   int32
	Offset      int64
	TimestampMs int64
	Key         []byte
	Value       []byte
	Headers     []Header
}

// New returns the record with the index i.
func New(i int) Record {
	return Record{
		Partition:   int32(i % Partitions),
		Offset:      int64(i / Partitions),
		TimestampMs: StartMs + int64(i),
		Key:         key(i),
		Value:       value(i),
		Headers:     headers(i),
	}
}

func key(i int) []byte {
	switch i % 10 {
	case 3:
		return nil
	case 9:
		return []byte{}
	}
	return []byte("key-" + strconv.Itoa(i))
}

func value(i int) []byte {
	switch i % 10 {
	case 5:
		return nil
	case 7:
		return []byte{}
	}
	data := make([]byte, i*37%300)
	for j := range data {
		data[j] = byte(31*i + 7*j)
	}
	return data
}

func headers(i int) []Header {
	switch i % 5 {
	case 1:
		return []Header{{"trace", []byte(strconv.Itoa(i))}}
	case 2:
		return []Header{{"empty", []byte{}}, {"null", nil}}
	case 3:
		return []Header{{"twin", []byte("1")}, {"twin", []byte("2")}}
	case 4:
		return []Header{{"binary", []byte{0, 255, byte(i)}}, {"ключ", []byte("значение")}}
	}
	return nil
}

// Digest orders the records by partition and offset and returns their SHA-256.
func Digest(records []Record) string {
	sort.Slice(records, func(a, b int) bool {
		if records[a].Partition != records[b].Partition {
			return records[a].Partition < records[b].Partition
		}
		return records[a].Offset < records[b].Offset
	})
	sha := sha256.New()
	for _, r := range records {
		data := binary.BigEndian.AppendUint32(nil, uint32(r.Partition))
		data = binary.BigEndian.AppendUint64(data, uint64(r.Offset))
		data = binary.BigEndian.AppendUint64(data, uint64(r.TimestampMs))
		data = sized(sized(data, r.Key), r.Value)
		data = binary.BigEndian.AppendUint32(data, uint32(len(r.Headers)))
		for _, h := range r.Headers {
			data = sized(sized(data, []byte(h.Key)), h.Value)
		}
		sha.Write(data)
	}
	return hex.EncodeToString(sha.Sum(nil))
}

func sized(data, part []byte) []byte {
	if part == nil {
		return binary.BigEndian.AppendUint32(data, 0xffffffff)
	}
	return append(binary.BigEndian.AppendUint32(data, uint32(len(part))), part...)
}

// Report is what a phase prints.
type Report map[string]any

// Run calls the phase that the command line names and prints its report.
func Run(version string, phases map[string]func(bootstrap, topic string) Report) {
	report := phases[os.Args[1]](os.Args[2], os.Args[3])
	report["version"] = version
	Check(json.NewEncoder(os.Stdout).Encode(report))
}

// Check ends the program on an error.
func Check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Eventually looks until it is as wanted: a change that the controller has confirmed
// reaches a broker's own view a moment later.
func Eventually[T any](look func() T, wanted func(T) bool) T {
	deadline := time.Now().Add(15 * time.Second)
	for {
		seen := look()
		if wanted(seen) || time.Now().After(deadline) {
			return seen
		}
		time.Sleep(20 * time.Millisecond)
	}
}
