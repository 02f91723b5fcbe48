package kafka

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/compress"
	"github.com/segmentio/kafka-go/protocol/fetch"

	"billing/internal/core/usecase"
)

// crafted is a batch as a test wants it, right or wrong.
type crafted struct {
	base       int64
	deltas     []int64 // of the records' offsets
	value      []byte
	lastDelta  int32
	count      int32
	attributes uint16
	producer   int64
	key        []byte
	time       int64 // added to the batch's first, 1000
}

func simple(base int64, n int) crafted {
	c := crafted{base: base, value: []byte("v"), lastDelta: int32(n - 1), count: int32(n), producer: -1}
	for i := range n {
		c.deltas = append(c.deltas, int64(i))
	}
	return c
}

func (c crafted) bytes() []byte {
	var records []byte
	for _, delta := range c.deltas {
		record := []byte{0}
		record = binary.AppendVarint(record, c.time)
		record = binary.AppendVarint(record, delta)
		if c.key == nil {
			record = binary.AppendVarint(record, -1)
		} else {
			record = append(binary.AppendVarint(record, int64(len(c.key))), c.key...)
		}
		record = append(binary.AppendVarint(record, int64(len(c.value))), c.value...)
		record = binary.AppendVarint(record, 0)
		records = append(binary.AppendVarint(records, int64(len(record))), record...)
	}
	if codec := compress.Compression(c.attributes & 7).Codec(); codec != nil {
		var packed bytes.Buffer
		w := codec.NewWriter(&packed)
		_, _ = w.Write(records)
		_ = w.Close()
		records = packed.Bytes()
	}
	out := binary.BigEndian.AppendUint64(nil, uint64(c.base))
	out = binary.BigEndian.AppendUint32(out, uint32(batchHeader-12+len(records)))
	out = append(binary.BigEndian.AppendUint32(out, 0), 2)
	out = binary.BigEndian.AppendUint32(out, 0)
	out = binary.BigEndian.AppendUint16(out, c.attributes)
	out = binary.BigEndian.AppendUint32(out, uint32(c.lastDelta))
	out = binary.BigEndian.AppendUint64(out, 1000)
	out = binary.BigEndian.AppendUint64(out, 2000)
	out = binary.BigEndian.AppendUint64(out, uint64(c.producer))
	out = binary.BigEndian.AppendUint16(out, 0)
	out = binary.BigEndian.AppendUint32(out, 0)
	out = binary.BigEndian.AppendUint32(out, uint32(c.count))
	return sum(append(out, records...))
}

// sum makes the checksum right.
func sum(b []byte) []byte {
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], castagnoli))
	return b
}

func with[T any](v T, change func(*T)) T {
	change(&v)
	return v
}

// drain reads everything an answer holds.
func drain(c *cursor) (offsets []int64, err error) {
	for {
		m, err := c.message()
		if errors.Is(err, io.EOF) {
			return offsets, nil
		}
		if err != nil {
			return offsets, err
		}
		offsets = append(offsets, m.Offset)
	}
}

func TestDamagedRecordsAreAnErrorThatNamesTheOffset(t *testing.T) {
	t.Parallel()
	good := simple(100, 3).bytes()
	tests := map[string]struct {
		raw    []byte
		offset string
	}{
		"flipped bit":             {with(bytes.Clone(good), func(b *[]byte) { (*b)[len(*b)-2] ^= 1 }), "100"},
		"unknown codec":           {with(simple(100, 3), func(c *crafted) { c.attributes = 6 }).bytes(), "100"},
		"broken compression":      {sum(with(bytes.Clone(good), func(b *[]byte) { (*b)[22] = 4 })), "100"},
		"old message format":      {with(bytes.Clone(good), func(b *[]byte) { (*b)[16] = 1 }), "100"},
		"impossible length":       {with(bytes.Clone(good), func(b *[]byte) { binary.BigEndian.PutUint32((*b)[8:], 3) }), "100"},
		"more records promised":   {with(simple(100, 3), func(c *crafted) { c.count = 4 }).bytes(), "102"},
		"fewer records promised":  {with(simple(100, 3), func(c *crafted) { c.count = 2 }).bytes(), "100"},
		"negative record count":   {with(simple(100, 3), func(c *crafted) { c.count = -1 }).bytes(), "100"},
		"offset beyond the batch": {with(simple(100, 3), func(c *crafted) { c.lastDelta = 1 }).bytes(), "101"},
		"offsets out of order":    {with(simple(100, 2), func(c *crafted) { c.deltas = []int64{1, 0} }).bytes(), "101"},
		"first batch is cut":      {good[:len(good)-1], "100"},
		"nothing but old records": {simple(90, 3).bytes(), "100"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCursor(100, &fetchResponsePartition{Records: tt.raw})
			defer c.close()
			offsets, err := drain(c)
			if !errors.Is(err, usecase.ErrCorrupt) || !strings.Contains(err.Error(), "offset "+tt.offset) {
				t.Fatalf("read %v, then: %v", offsets, err)
			}
			if want := int64(100 + len(offsets)); name != "offsets out of order" && c.next != want {
				t.Fatalf("position %d after %d records, want %d", c.next, len(offsets), want)
			}
		})
	}
}

func TestWhatIsBehindDamageWaitsAndIsNeverSkipped(t *testing.T) {
	t.Parallel()
	broken := simple(103, 3).bytes()
	broken[len(broken)-1] ^= 1
	raw := bytes.Join([][]byte{simple(100, 3).bytes(), broken, simple(106, 3).bytes()}, nil)
	l := newTestLog(t, []string{"127.0.0.1:1"}, "orders", defaultMaxBytes)
	l.cursor = newCursor(100, &fetchResponsePartition{Records: raw})
	fetched, err := l.chunk()
	if err != nil || len(fetched.Deliveries) != 3 || fetched.Next != 103 {
		t.Fatalf("before the damage: %+v, %v", fetched, err)
	}
	if l.cursor != nil {
		t.Fatal("the rest of the answer was kept, want it asked for again")
	}
	l.cursor = newCursor(103, &fetchResponsePartition{Records: raw})
	if fetched, err = l.chunk(); !errors.Is(err, usecase.ErrCorrupt) || len(fetched.Deliveries) != 0 {
		t.Fatalf("at the damage: %+v, %v", fetched, err)
	}
}

func TestEmptyAndCompactedBatchesArePassed(t *testing.T) {
	t.Parallel()
	empty := with(simple(100, 0), func(c *crafted) { c.lastDelta = 9 }).bytes()
	tail := with(simple(110, 2), func(c *crafted) { c.lastDelta = 9 }).bytes() // 112 to 119 were compacted away
	cut := simple(120, 5).bytes()[:40]
	tests := map[string]struct {
		from    int64
		parts   [][]byte
		offsets string
		next    int64
	}{
		"an empty batch alone":        {100, [][]byte{empty}, "[]", 110},
		"a compacted tail":            {110, [][]byte{tail}, "[110 111]", 120},
		"from inside a batch":         {111, [][]byte{tail}, "[111]", 120},
		"only a compacted tail":       {112, [][]byte{tail}, "[]", 120},
		"a cut batch behind others":   {100, [][]byte{empty, tail, cut}, "[110 111]", 120},
		"a hole between two batches":  {100, [][]byte{empty, simple(115, 2).bytes()}, "[115 116]", 117},
		"nothing at all is no damage": {100, nil, "[]", 100},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCursor(tt.from, &fetchResponsePartition{Records: bytes.Join(tt.parts, nil)})
			offsets, err := drain(c)
			if got := fmt.Sprint(offsets); err != nil || got != tt.offsets || c.next != tt.next {
				t.Fatalf("read %s up to %d, want %s up to %d: %v", got, c.next, tt.offsets, tt.next, err)
			}
		})
	}
}

func TestAnAbortMarkerEndsOnlyItsOwnProducersTransaction(t *testing.T) {
	t.Parallel()
	const transactional, control = 1 << 4, 1<<5 | 1<<4
	data := func(base, producer int64) []byte {
		return with(simple(base, 1), func(c *crafted) { c.attributes, c.producer = transactional, producer }).bytes()
	}
	marker := func(base, producer int64, kind byte) []byte {
		return with(simple(base, 1), func(c *crafted) {
			c.attributes, c.producer, c.key = control, producer, []byte{0, 0, 0, kind}
		}).bytes()
	}
	raw := bytes.Join([][]byte{
		data(0, 7), data(1, 8), marker(2, 8, 1), data(3, 8), marker(4, 7, 0), data(5, 7), marker(6, 8, 0), marker(7, 7, 1),
	}, nil)
	c := newCursor(0, &fetchResponsePartition{Records: raw, AbortedTransactions: []fetch.ResponseTransaction{
		{ProducerID: 8, FirstOffset: 3}, {ProducerID: 7, FirstOffset: 0},
	}})
	offsets, err := drain(c)
	if got := fmt.Sprint(offsets); err != nil || got != "[1 5]" || c.next != 8 || c.hidden != 2 {
		t.Fatalf("read %s up to %d with %d hidden: %v", got, c.next, c.hidden, err)
	}
}

func TestASmallBatchThatUnpacksHugeIsReadRecordByRecord(t *testing.T) {
	t.Parallel()
	bomb := with(simple(0, 64), func(c *crafted) { c.attributes, c.value = 4, make([]byte, 1<<20) }).bytes()
	if len(bomb) > 1<<20 {
		t.Fatalf("the batch has %d bytes", len(bomb))
	}
	c := newCursor(0, &fetchResponsePartition{Records: bomb})
	defer c.close()
	for i := range int64(20) {
		if m, err := c.message(); err != nil || m.Offset != i || len(m.Value) != 1<<20 {
			t.Fatalf("record %d: offset %d, %d bytes, %v", i, m.Offset, len(m.Value), err)
		}
	}
	huge := with(simple(0, 1), func(c *crafted) { c.attributes, c.value = 4, make([]byte, maxRecord+1) }).bytes()
	if _, err := drain(newCursor(0, &fetchResponsePartition{Records: huge})); !errors.Is(err, usecase.ErrCorrupt) {
		t.Fatalf("a record above the limit: %v", err)
	}
}

func TestTheTimeOfARecordIsTheOneThatTheTopicSays(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		attributes  uint16
		delta, want int64
	}{
		"the producer's": {0, 5, 1005},
		"the broker's":   {uint16(logAppendTime), 5, 2000},
		"none":           {0, -1001, 0},
		"senseless":      {0, math.MaxInt64 - 1000, 253402300799999},
	}
	for name, tt := range tests {
		raw := with(simple(0, 1), func(c *crafted) { c.attributes, c.time = tt.attributes, tt.delta }).bytes()
		m, err := newCursor(0, &fetchResponsePartition{Records: raw}).message()
		if err != nil || !m.Time.Equal(time.UnixMilli(tt.want)) || m.Time.Location() != time.UTC {
			t.Errorf("%s: %v, %v", name, m.Time, err)
		}
	}
}

func FuzzCursor(f *testing.F) {
	f.Add(bytes.Join([][]byte{simple(0, 3).bytes(), simple(3, 1).bytes()}, nil))
	f.Add(with(simple(0, 3), func(c *crafted) { c.attributes = 4 }).bytes())
	f.Add(with(simple(0, 0), func(c *crafted) { c.lastDelta = 5 }).bytes())
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) > 21 {
			raw = sum(bytes.Clone(raw)) // reach what lies behind the checksum
		}
		c := newCursor(0, &fetchResponsePartition{Records: raw})
		defer c.close()
		var last usecase.Message
		for {
			before := c.next
			m, err := c.message()
			if err != nil {
				if errors.Is(err, io.EOF) && len(raw) > 0 && c.next == 0 {
					t.Fatal("no progress and no error")
				}
				return
			}
			if m.Offset < before || c.next != m.Offset+1 {
				t.Fatalf("offset %d after %d, position %d then %d", m.Offset, last.Offset, before, c.next)
			}
			last = m
		}
	})
}
