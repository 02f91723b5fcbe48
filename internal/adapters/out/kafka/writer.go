// Package kafka is the way out to Kafka: it encodes results and dead letters and publishes them.
package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"billing/internal/core/usecase"
)

// maxBatch is what one batch may hold, counted uncompressed. It stays below the broker's default of
// 1,048,588 by more than the bytes that the format adds, or two large messages would make a batch that
// is refused for ever.
const maxBatch = 1_048_000

// errBusy is the result of messages that were not even tried: an earlier call for the topic was given up
// by its caller and is still being written, and a second one would pile up behind it without a limit.
var errBusy = errors.New("an earlier write to the topic is still under way")

// Writer publishes messages, each acknowledged by all in-sync replicas. It is safe for concurrent use.
type Writer struct {
	writer *kafka.Writer
	calls  sync.WaitGroup

	mu       sync.Mutex
	given    map[string]int // calls by topic whose caller did not wait for the end
	isClosed bool
}

// NewWriter makes a writer to the cluster at brokers. The transport belongs to the caller, who closes it
// after the writer; its MetadataTTL decides how soon a moved leader is followed.
func NewWriter(brokers []string, transport *kafka.Transport) *Writer {
	return &Writer{given: map[string]int{}, writer: &kafka.Writer{
		Addr:         kafka.TCP(brokers...),
		Balancer:     kafka.Murmur2Balancer{}, // the Java client's: other producers' keys land on the same partition
		MaxAttempts:  10,
		BatchSize:    1000,
		BatchBytes:   maxBatch,
		BatchTimeout: time.Millisecond,
		WriteTimeout: 10 * time.Second,
		RequiredAcks: kafka.RequireAll, // the zero value asks for none and reports success
		Transport:    transport,
	}}
}

// Publish writes messages to one topic and returns a result for each: nil when the broker acknowledged
// it, otherwise the reason why nothing is known of it. A message that is too large fails alone. When ctx
// ends first, messages without a result may still be written later.
func (w *Writer) Publish(ctx context.Context, topic string, messages []usecase.OutboxMessage) []error {
	results := make([]error, len(messages))
	if len(messages) == 0 {
		return results
	}
	call, err := w.begin(topic)
	if err != nil {
		return fill(results, topic, err)
	}
	done := make(chan []error, 1)
	go func() {
		defer w.end(call)
		// The library goes on with a write whose context has ended, so it is followed to its end here.
		done <- w.write(context.WithoutCancel(ctx), outgoing(topic, messages))
	}()
	select {
	case errs := <-done:
		for i, err := range errs {
			if err != nil {
				results[i] = fmt.Errorf("publish to %s: %w", topic, err)
			}
		}
		return results
	case <-ctx.Done():
		w.giveUp(call)
		return fill(results, topic, ctx.Err())
	}
}

func fill(results []error, topic string, err error) []error {
	for i := range results {
		results[i] = fmt.Errorf("publish to %s: %w", topic, err)
	}
	return results
}

func outgoing(topic string, messages []usecase.OutboxMessage) []kafka.Message {
	out := make([]kafka.Message, len(messages))
	for i, m := range messages {
		headers := make([]kafka.Header, len(m.Headers))
		for j, h := range m.Headers {
			headers[j] = kafka.Header{Key: h.Key, Value: h.Value}
		}
		// WriterData carries the index, since the library's errors lose it.
		out[i] = kafka.Message{Topic: topic, Key: m.Key, Value: m.Value, Headers: headers, WriterData: i}
	}
	return out
}

// write returns one result for each message, by index.
func (w *Writer) write(ctx context.Context, messages []kafka.Message) []error {
	results := make([]error, len(messages))
	refused := w.writeOnce(ctx, messages, results)
	if len(refused) > 1 {
		// The broker refused whole batches as too large: its limit is lower than ours. Nothing of them was
		// written, so each message is tried alone.
		for _, m := range refused {
			w.writeOnce(ctx, []kafka.Message{m}, results)
		}
	}
	return results
}

// writeOnce makes one call, without the messages that the library finds too large, fills in the results,
// and returns the messages that the broker found too large together.
func (w *Writer) writeOnce(ctx context.Context, messages []kafka.Message, results []error) (refused []kafka.Message) {
	for len(messages) > 0 {
		err := w.writer.WriteMessages(ctx, messages...)
		if tooLarge, ok := errors.AsType[kafka.MessageTooLargeError](err); ok {
			results[index(tooLarge.Message)] = kafka.MessageSizeTooLarge
			messages = tooLarge.Remaining
			continue
		}
		each, ok := errors.AsType[kafka.WriteErrors](err)
		for i, m := range messages {
			result := err
			if ok && len(each) == len(messages) {
				result = each[i]
			}
			results[index(m)] = result
			if errors.Is(result, kafka.MessageSizeTooLarge) {
				refused = append(refused, m)
			}
		}
		return refused
	}
	return nil
}

func index(m kafka.Message) int {
	i, _ := m.WriterData.(int) // written by outgoing
	return i
}

// call is one Publish.
type call struct {
	topic string
	given bool // its caller did not wait
	ended bool
}

func (w *Writer) begin(topic string) (*call, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.isClosed {
		return nil, errors.New("the writer is closed")
	}
	if w.given[topic] > 0 {
		return nil, errBusy
	}
	w.calls.Add(1)
	return &call{topic: topic}, nil
}

func (w *Writer) giveUp(c *call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !c.ended {
		c.given = true
		w.given[c.topic]++
	}
}

func (w *Writer) end(c *call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c.ended = true
	if c.given {
		w.given[c.topic]--
	}
	w.calls.Done()
}

// Close waits for writes under way and stops, or returns an error when ctx ends first. Publish must not
// be called any more.
func (w *Writer) Close(ctx context.Context) error {
	w.mu.Lock()
	w.isClosed = true
	w.mu.Unlock()
	closed := make(chan error, 1)
	go func() {
		// The library's Close can hang for ever when a first write runs at the same time.
		w.calls.Wait()
		closed <- w.writer.Close()
	}()
	select {
	case err := <-closed:
		if err != nil {
			return fmt.Errorf("close the writer: %w", err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close the writer: writes are still under way: %w", ctx.Err())
	}
}
