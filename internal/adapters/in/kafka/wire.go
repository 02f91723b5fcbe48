package kafka

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"
)

const (
	// minFetchVersion is the first version that knows transactions; Kafka 4.0 accepts nothing older.
	minFetchVersion = 4
	// maxFrame bounds the memory of one answer. A broker sends at most the asked bytes, or one batch,
	// which is never larger than the topic's max.message.bytes.
	maxFrame = 100 << 20
	// totalBytes is far above the bytes asked for the one partition, because a broker that hits the
	// limit of the whole request may leave out the list of aborted transactions.
	totalBytes = 64 << 20
)

// fetchRequest is a fetch whose answer keeps the record batches as they came. The library's own
// decoding throws away the last offset of each batch and swallows what it cannot read.
type fetchRequest struct {
	fetch.Request
	clientID string
	version  int16
}

// Required takes the version that was negotiated for the connection.
func (r *fetchRequest) Required(versions map[protocol.ApiKey]int16) bool {
	r.version = versions[protocol.Fetch]
	return true
}

// RawExchange writes the request and reads its answer. An error makes the transport close the connection.
func (r *fetchRequest) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	if r.version < minFetchVersion {
		return nil, fmt.Errorf("broker offers fetch version %d, want at least %d", r.version, minFetchVersion)
	}
	const correlationID = 1 // one exchange at a time runs on a connection
	if err := protocol.WriteRequest(rw, r.version, correlationID, r.clientID, &r.Request); err != nil {
		return nil, fmt.Errorf("write request: %w", err)
	}
	body, err := readFrame(rw, correlationID)
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	answer := new(fetchResponse)
	if err := protocol.Unmarshal(body, r.version, answer); err != nil {
		return nil, fmt.Errorf("decode answer: %w", err)
	}
	return answer, nil
}

func readFrame(r io.Reader, correlationID uint32) ([]byte, error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[:4])
	if size < 4 || size > maxFrame {
		return nil, fmt.Errorf("frame of %d bytes", size)
	}
	if got := binary.BigEndian.Uint32(head[4:]); got != correlationID {
		return nil, fmt.Errorf("answer to request %d", got)
	}
	body := make([]byte, size-4)
	_, err := io.ReadFull(r, body)
	return body, err
}

// fetchResponse mirrors fetch.Response with the records left as bytes.
type fetchResponse struct {
	ThrottleTimeMs int32                `kafka:"min=v1,max=v11"`
	ErrorCode      int16                `kafka:"min=v7,max=v11"`
	SessionID      int32                `kafka:"min=v7,max=v11"`
	Topics         []fetchResponseTopic `kafka:"min=v0,max=v11"`
}

// ApiKey names the API, as the library wants it.
func (*fetchResponse) ApiKey() protocol.ApiKey { return protocol.Fetch } //nolint:revive,staticcheck // the library's interface spells it so

type fetchResponseTopic struct {
	Topic      string                   `kafka:"min=v0,max=v11"`
	Partitions []fetchResponsePartition `kafka:"min=v0,max=v11"`
}

type fetchResponsePartition struct {
	Partition            int32                       `kafka:"min=v0,max=v11"`
	ErrorCode            int16                       `kafka:"min=v0,max=v11"`
	HighWatermark        int64                       `kafka:"min=v0,max=v11"`
	LastStableOffset     int64                       `kafka:"min=v4,max=v11"`
	LogStartOffset       int64                       `kafka:"min=v5,max=v11"`
	AbortedTransactions  []fetch.ResponseTransaction `kafka:"min=v4,max=v11"`
	PreferredReadReplica int32                       `kafka:"min=v11,max=v11"`
	Records              []byte                      `kafka:"min=v0,max=v11"`
}

// newFetchRequest asks for the committed records of one partition.
func newFetchRequest(clientID, topic string, partition int32, offset int64, maxBytes int32, maxWaitMS int32) *fetchRequest {
	return &fetchRequest{clientID: clientID, Request: fetch.Request{
		ReplicaID:      -1,
		MaxWaitTime:    maxWaitMS,
		MinBytes:       1,
		MaxBytes:       totalBytes,
		IsolationLevel: 1, // read_committed
		SessionID:      0,
		SessionEpoch:   -1, // no session
		Topics: []fetch.RequestTopic{{
			Topic: topic,
			Partitions: []fetch.RequestPartition{{
				Partition:          partition,
				CurrentLeaderEpoch: -1,
				FetchOffset:        offset,
				LogStartOffset:     -1,
				PartitionMaxBytes:  maxBytes,
			}},
		}},
	}}
}
