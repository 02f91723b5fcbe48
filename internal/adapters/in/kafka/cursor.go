package kafka

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/segmentio/kafka-go/protocol/fetch"

	"billing/internal/core/usecase"
)

// cursor walks through the records of one answer and leaves out what read_committed hides. It unpacks
// lazily and can be left and taken up again.
type cursor struct {
	start    int64 // the offset that was asked for
	next     int64 // behind everything that was looked at
	raw      []byte
	stable   int64                       // the last stable offset of the answer
	high     int64                       // its high watermark
	pending  []fetch.ResponseTransaction // aborted transactions whose first record is still ahead
	aborted  map[int64]bool              // producers inside an aborted transaction
	records  *recordReader               // of the batch at hand
	held     *usecase.Message            // given back by its reader
	hidden   int                         // records of aborted transactions passed over
	holes    int64                       // offsets that no batch covered
	answered bool                        // there was anything in the answer
}

func newCursor(offset int64, p *fetchResponsePartition) *cursor {
	c := &cursor{
		start: offset, next: offset, raw: p.Records, stable: p.LastStableOffset, high: p.HighWatermark,
		pending: p.AbortedTransactions, aborted: map[int64]bool{}, answered: len(p.Records) > 0,
	}
	slices.SortFunc(c.pending, func(a, b fetch.ResponseTransaction) int { return cmp.Compare(a.FirstOffset, b.FirstOffset) })
	return c
}

// message returns the next committed record at or above the position, or io.EOF when the answer holds
// no more. After any error next stands where reading has to go on.
func (c *cursor) message() (usecase.Message, error) {
	if c.held != nil {
		m := *c.held
		c.held = nil
		c.next = m.Offset + 1
		return m, nil
	}
	for {
		if c.records == nil {
			if err := c.openBatch(); err != nil {
				return usecase.Message{}, err
			}
			continue
		}
		m, err := c.records.next()
		switch {
		case errors.Is(err, io.EOF):
			c.closeBatch()
		case err != nil:
			return usecase.Message{}, err
		case m.Offset >= c.next:
			c.next = m.Offset + 1
			return m, nil
		}
	}
}

// hold gives back the message that was returned last, for which there was no room.
func (c *cursor) hold(m usecase.Message) {
	c.held = &m
	c.next = m.Offset
}

// openBatch opens the next batch that has something to deliver.
func (c *cursor) openBatch() error {
	for {
		if len(c.raw) == 0 {
			return c.end()
		}
		b, rest, err := readBatch(c.raw)
		if errors.Is(err, errCut) {
			return c.end()
		}
		if err != nil {
			return err
		}
		if b.base > c.next {
			c.holes += b.base - c.next
		}
		hidden, err := c.hides(b)
		if err != nil {
			return err
		}
		if !hidden && b.last >= c.next {
			c.records, err = b.open()
			c.raw = rest
			return err
		}
		c.raw = rest
		c.next = max(c.next, b.last+1)
	}
}

// end reports io.EOF, or that a full answer brought no progress: to ask again would never end, and to
// step over would lose a record.
func (c *cursor) end() error {
	if c.answered && c.next == c.start {
		return fmt.Errorf("%w: the answer holds no whole batch at or above offset %d", usecase.ErrCorrupt, c.start)
	}
	return io.EOF
}

func (c *cursor) closeBatch() {
	c.next = max(c.next, c.records.batch.last+1)
	c.close()
}

func (c *cursor) close() {
	if c.records != nil {
		c.records.close()
		c.records = nil
	}
}

// hides reports whether a batch is a control batch or part of an aborted transaction. Batches must be
// shown to it in order, once each.
func (c *cursor) hides(b batch) (bool, error) {
	for len(c.pending) > 0 && c.pending[0].FirstOffset <= b.last {
		c.aborted[c.pending[0].ProducerID] = true
		c.pending = c.pending[1:]
	}
	if b.attributes.Control() {
		abort, err := isAbortMarker(b)
		if abort {
			delete(c.aborted, b.producerID)
		}
		return true, err
	}
	if b.attributes.Transactional() && c.aborted[b.producerID] {
		c.hidden += int(b.count)
		return true, nil
	}
	return false, nil
}

// isAbortMarker reads the key of a control record: version and type, 0 for abort. Compaction may have
// emptied the batch.
func isAbortMarker(b batch) (bool, error) {
	records, err := b.open()
	if err != nil {
		return false, err
	}
	defer records.close()
	m, err := records.next()
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	return len(m.Key) == 4 && m.Key[2] == 0 && m.Key[3] == 0, err
}
