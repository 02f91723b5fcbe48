package usecase

import (
	"strconv"
	"strings"
	"time"
)

// The headers of a message in the retry topic. The first four name the record as it was first read, so
// that its dead letter bears the coordinates which its producer knows.
const (
	HeaderRetryTopic     = "retry-topic"
	HeaderRetryPartition = "retry-partition"
	HeaderRetryOffset    = "retry-offset"
	HeaderRetryTimestamp = "retry-timestamp" // RFC 3339 UTC with milliseconds
	HeaderRetryCount     = "retry-count"     // how often the message went through the retry topic
)

const retryHeaderPrefix = "retry-"

// RetryTopic is the one topic by which messages of topic come back to group.
func RetryTopic(topic, group string) string { return topic + "." + group + ".retry" }

// RetryPlan sends a single message that keeps failing away and lets it come back after each of Delays.
// The delay is the due time of an outbox row, so no consumer sleeps with a message in its hands.
type RetryPlan struct {
	Delays []time.Duration
}

// maxRetryBytes is what a retry message may hold. Brokers take a little more than 1 MiB unless they are told otherwise; one
// that took a larger message the first time may not take it with five headers more, and would refuse it for ever.
const maxRetryBytes = 1_000_000

// Message builds the message for the retry topic, or returns false when no delay is left, or when it is too large for a
// broker: its dead letter is not, because its copy in Kafka then only points to it. A plan that became shorter ends earlier
// and one that became longer goes on: the message carries only its count.
func (p RetryPlan) Message(d Delivery, group string) (OutboxMessage, bool) {
	if d.Retries >= len(p.Delays) {
		return OutboxMessage{}, false
	}
	headers := make([]Header, 0, len(d.Message.Headers)+5)
	for _, h := range d.Message.Headers {
		if !strings.HasPrefix(h.Key, retryHeaderPrefix) {
			headers = append(headers, h)
		}
	}
	headers = append(
		headers,
		Header{HeaderRetryTopic, []byte(d.Origin.Topic)},
		Header{HeaderRetryPartition, []byte(strconv.Itoa(int(d.Origin.Partition)))},
		Header{HeaderRetryOffset, []byte(strconv.FormatInt(d.Origin.Offset, 10))},
		Header{HeaderRetryTimestamp, []byte(d.Origin.Time.UTC().Format("2006-01-02T15:04:05.000Z07:00"))},
		Header{HeaderRetryCount, []byte(strconv.Itoa(d.Retries + 1))},
	)
	size := len(d.Message.Key) + len(d.Message.Value)
	for _, h := range headers {
		size += len(h.Key) + len(h.Value) + 10 // with what frames it: many small headers are large, too
	}
	if size > maxRetryBytes {
		return OutboxMessage{}, false
	}
	return OutboxMessage{
		EventType: "Retry", Topic: RetryTopic(d.Origin.Topic, group), Key: d.Message.Key, Value: d.Message.Value,
		Headers: headers, EventID: d.EventID, Delay: p.Delays[d.Retries],
	}, true
}
