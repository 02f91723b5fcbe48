package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

// errGone says that the topic is not there any more. When it is made anew it is another log, in which the
// position means nothing, so the assignment is over: the next one asks for the group's offset again.
var errGone = fmt.Errorf("the topic is gone: %w", domain.ErrFenced)

const (
	maxChunkMessages = 500
	maxChunkBytes    = 1 << 20
	defaultMaxBytes  = 1 << 20
	defaultMaxWait   = 500 * time.Millisecond
	requestTimeout   = 5 * time.Second
	retryPause       = 200 * time.Millisecond
)

// Log reads one assigned partition, and commits its offsets, for the time of one assignment. It
// implements usecase.PartitionLog and is used by one goroutine at a time. While a chunk is in the
// database, the next one is fetched and decoded in the background.
type Log struct {
	topic     string
	partition int32
	client    *kafka.Client
	transport *kafka.Transport
	maxBytes  int32
	maxWait   time.Duration
	decode    func(topic string, partition int32, m usecase.Message) usecase.Delivery
	commit    func(offsets map[string]map[int]int64) error
	observer  Observer
	clock     usecase.Clock
	log       *slog.Logger

	life   context.Context // of the assignment; ends the background fetch
	stop   context.CancelFunc
	wg     sync.WaitGroup
	ahead  chan ahead // holds at most one chunk
	flying bool       // a background fetch was started and its chunk not taken yet
	cursor *cursor    // what the last answer still holds; the background fetch owns it while flying

	retention time.Duration // of the topic, as far as the broker told
	committed int64         // last offset committed in this assignment, or the one it began with
	over      bool          // the broker, or a dead connection, ended the assignment
	gone      bool          // the topic was deleted
}

// ahead is a chunk fetched in the background.
type ahead struct {
	offset  int64
	fetched usecase.Fetched
	err     error
}

// Bounds asks the partition's leader for the first offset of the log and for the one behind its last
// record, committed or not. It waits for at most 5 seconds. Errors: domain.ErrFenced when the topic was
// deleted, domain.ErrOutage.
func (l *Log) Bounds(ctx context.Context) (usecase.Bounds, error) {
	var bounds usecase.Bounds
	err := l.retry(ctx, requestTimeout, func(ctx context.Context) error {
		var err error
		bounds, err = l.bounds(ctx)
		return err
	})
	if err != nil {
		l.gone = l.gone || errors.Is(err, errGone)
		return usecase.Bounds{}, fmt.Errorf("read bounds of %s/%d: %w", l.topic, l.partition, err)
	}
	return bounds, nil
}

func (l *Log) bounds(ctx context.Context) (usecase.Bounds, error) {
	partition := int(l.partition)
	answer, err := l.client.ListOffsets(ctx, &kafka.ListOffsetsRequest{
		Topics: map[string][]kafka.OffsetRequest{l.topic: {kafka.FirstOffsetOf(partition), kafka.LastOffsetOf(partition)}},
	})
	if err != nil {
		return usecase.Bounds{}, err
	}
	for _, p := range answer.Topics[l.topic] {
		if p.Partition != partition {
			continue
		}
		if p.Error != nil {
			return usecase.Bounds{}, p.Error
		}
		if p.FirstOffset >= 0 && p.LastOffset >= p.FirstOffset {
			return usecase.Bounds{Start: p.FirstOffset, End: p.LastOffset, Retention: l.retention}, nil
		}
	}
	return usecase.Bounds{}, kafka.Unknown
}

// Fetch returns at most 500 committed records, or 1 MiB of them, at or above offset. When there are
// none it waits for half a second and returns an empty answer. A leader that moved is followed. Errors:
// usecase.ErrOffsetOutOfRange, usecase.ErrCorrupt, domain.ErrFenced when the topic was deleted, domain.ErrOutage
// when the partition did not answer in time.
func (l *Log) Fetch(ctx context.Context, offset int64) (usecase.Fetched, error) {
	fetched, err := l.take(ctx, offset)
	l.gone = l.gone || errors.Is(err, errGone)
	if err == nil && len(fetched.Deliveries) > 0 {
		l.fetchAhead(fetched.Next)
	}
	return fetched, err
}

// take returns the chunk of the background fetch when it is the expected one, else a fresh one.
func (l *Log) take(ctx context.Context, offset int64) (usecase.Fetched, error) {
	if l.flying {
		select {
		case <-ctx.Done():
			return usecase.Fetched{}, ctx.Err()
		case a := <-l.ahead:
			l.flying = false
			if a.offset == offset {
				return a.fetched, a.err
			}
		}
	}
	return l.read(ctx, offset)
}

func (l *Log) fetchAhead(offset int64) {
	l.flying = true
	l.wg.Go(func() {
		fetched, err := l.read(l.life, offset)
		l.ahead <- ahead{offset: offset, fetched: fetched, err: err}
	})
}

// read makes a chunk from what the last answer still holds at offset, or from a new answer.
func (l *Log) read(ctx context.Context, offset int64) (usecase.Fetched, error) {
	if l.cursor == nil || l.cursor.next != offset {
		l.drop()
		err := l.retry(ctx, requestTimeout+l.maxWait, func(ctx context.Context) error {
			var err error
			l.cursor, err = l.request(ctx, offset)
			return err
		})
		if err != nil {
			return usecase.Fetched{}, fmt.Errorf("fetch %s/%d at offset %d: %w", l.topic, l.partition, offset, err)
		}
	}
	fetched, err := l.chunk()
	if err != nil {
		return usecase.Fetched{}, fmt.Errorf("read %s/%d at offset %d: %w", l.topic, l.partition, offset, err)
	}
	return fetched, nil
}

// chunk takes messages from the cursor up to the limits. An error behind the first message waits for
// the next call.
func (l *Log) chunk() (usecase.Fetched, error) {
	c := l.cursor
	fetched := usecase.Fetched{Next: c.next}
	size := 0
	for len(fetched.Deliveries) < maxChunkMessages {
		m, err := c.message()
		if err != nil {
			l.drop()
			if !errors.Is(err, io.EOF) && len(fetched.Deliveries) == 0 {
				return usecase.Fetched{}, err
			}
			break
		}
		if size += messageSize(m); size > maxChunkBytes && len(fetched.Deliveries) > 0 {
			c.hold(m)
			break
		}
		fetched.Deliveries = append(fetched.Deliveries, l.decode(l.topic, l.partition, m))
	}
	fetched.Next = c.next
	l.report(c)
	return fetched, nil
}

// report tells what the cursor passed over, once each, and how far behind the reader is.
func (l *Log) report(c *cursor) {
	if c.hidden > 0 {
		l.observer.AbortedRecords(l.topic, l.partition, c.hidden)
		c.hidden = 0
	}
	if c.holes > 0 {
		l.log.Warn("the log has no records for some offsets", "before", c.next, "missing", c.holes)
		c.holes = 0
	}
	l.observer.Lag(l.topic, l.partition, max(0, c.stable-c.next))
	l.observer.HeldBack(l.topic, l.partition, max(0, c.high-c.stable))
}

func messageSize(m usecase.Message) int {
	size := len(m.Key) + len(m.Value)
	for _, h := range m.Headers {
		size += len(h.Key) + len(h.Value)
	}
	return size
}

func (l *Log) drop() {
	if l.cursor != nil {
		l.cursor.close()
		l.cursor = nil
	}
}

// request asks the leader once.
func (l *Log) request(ctx context.Context, offset int64) (*cursor, error) {
	req := newFetchRequest(l.transport.ClientID, l.topic, l.partition, offset, l.maxBytes, int32(l.maxWait.Milliseconds())) //nolint:gosec // under a minute
	answer, err := l.transport.RoundTrip(ctx, l.client.Addr, req)
	if err != nil {
		return nil, err
	}
	response, ok := answer.(*fetchResponse)
	if !ok || len(response.Topics) != 1 || len(response.Topics[0].Partitions) != 1 {
		return nil, errors.New("the answer is not about the partition")
	}
	p := &response.Topics[0].Partitions[0]
	switch code := kafka.Error(max(response.ErrorCode, p.ErrorCode)); code {
	case 0:
		return newCursor(offset, p), nil
	case kafka.OffsetOutOfRange:
		return nil, fmt.Errorf("%w: %w", usecase.ErrOffsetOutOfRange, code)
	default:
		return nil, code
	}
}

// retry repeats what may pass by itself, a moved leader or a broken connection, until the time is over.
// The transport learns of a new leader by its own refresh of the metadata.
func (l *Log) retry(ctx context.Context, limit time.Duration, try func(ctx context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		err := try(limited)
		if errors.Is(err, kafka.UnknownTopicOrPartition) || errors.Is(err, protocol.ErrNoTopic) {
			return fmt.Errorf("%w: %w", errGone, err)
		}
		if err == nil || ctx.Err() != nil || !passes(err) {
			return err
		}
		if !l.clock.Sleep(limited, retryPause) {
			return fmt.Errorf("%w: %w", domain.ErrOutage, err)
		}
	}
}

// passes reports whether an error of a read can go away without anyone's doing.
func passes(err error) bool {
	if code, ok := errors.AsType[kafka.Error](err); ok {
		return code.Temporary() || code == kafka.ReplicaNotAvailable || code == kafka.BrokerNotAvailable || code == kafka.Unknown
	}
	return true
}

// close ends the background fetch and waits for it.
func (l *Log) close() {
	l.stop()
	l.wg.Wait()
	l.drop()
}
