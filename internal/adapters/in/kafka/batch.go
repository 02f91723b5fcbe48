package kafka

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"github.com/segmentio/kafka-go/protocol"

	"billing/internal/core/usecase"
)

// errCut marks a batch whose end is missing: a broker may cut the last one of an answer.
var errCut = errors.New("batch is cut")

const (
	batchHeader = 61
	// maxRecord bounds the memory of one record, which compression can make much larger than any
	// limit of the broker.
	maxRecord     = 32 << 20
	logAppendTime = protocol.Attributes(1 << 3)
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// batch is one record batch of message format v2, its records still compressed.
type batch struct {
	base, last int64 // the offsets it covers, both inclusive, even where compaction emptied it
	attributes protocol.Attributes
	firstTime  int64 // milliseconds
	maxTime    int64
	producerID int64
	count      int32
	payload    []byte
}

// readBatch takes the first batch off raw and checks its sum.
func readBatch(raw []byte) (batch, []byte, error) {
	if len(raw) < 17 {
		return batch{}, nil, errCut
	}
	base := int64(binary.BigEndian.Uint64(raw))            //nolint:gosec // two's complement on the wire
	length := int(int32(binary.BigEndian.Uint32(raw[8:]))) //nolint:gosec // two's complement on the wire
	if magic := raw[16]; magic != 2 {
		return batch{}, nil, fmt.Errorf("%w: the batch at offset %d has message format v%d, want v2", usecase.ErrCorrupt, base, magic)
	}
	if length < batchHeader-12 {
		return batch{}, nil, fmt.Errorf("%w: the batch at offset %d says %d bytes", usecase.ErrCorrupt, base, length)
	}
	if len(raw)-12 < length {
		return batch{}, nil, errCut
	}
	body, rest := raw[:12+length], raw[12+length:]
	if want, got := binary.BigEndian.Uint32(body[17:]), crc32.Checksum(body[21:], castagnoli); want != got {
		return batch{}, nil, fmt.Errorf("%w: the batch at offset %d, said to end at %d, has checksum %08x, want %08x", usecase.ErrCorrupt, base, parseHeader(base, body).last, got, want)
	}
	b := parseHeader(base, body)
	if b.last < b.base || b.count < 0 {
		return batch{}, nil, fmt.Errorf("%w: the batch at offset %d ends at %d with %d records", usecase.ErrCorrupt, base, b.last, b.count)
	}
	return b, rest, nil
}

func parseHeader(base int64, body []byte) batch {
	i32 := func(at int) int32 { return int32(binary.BigEndian.Uint32(body[at:])) } //nolint:gosec // two's complement on the wire
	i64 := func(at int) int64 { return int64(binary.BigEndian.Uint64(body[at:])) } //nolint:gosec // two's complement on the wire
	return batch{
		base:       base,
		last:       base + int64(i32(23)),
		attributes: protocol.Attributes(binary.BigEndian.Uint16(body[21:])), //nolint:gosec // a bit set
		firstTime:  i64(27),
		maxTime:    i64(35),
		producerID: i64(43),
		count:      i32(57),
		payload:    body[batchHeader:],
	}
}

// recordReader yields the records of a batch one after another, so that a small batch that unpacks to
// a huge one never lies in memory as a whole.
type recordReader struct {
	batch  batch
	in     *bufio.Reader
	closer io.Closer
	read   int32
	prev   int64
}

func (b batch) open() (*recordReader, error) {
	r := &recordReader{batch: b, prev: b.base - 1, closer: io.NopCloser(nil)}
	var src io.Reader = bytes.NewReader(b.payload)
	if compression := b.attributes.Compression(); compression != 0 {
		codec := compression.Codec()
		if codec == nil {
			return nil, fmt.Errorf("%w: the batch at offset %d, which ends at %d, has unknown compression %d", usecase.ErrCorrupt, b.base, b.last, compression)
		}
		unpacked := codec.NewReader(src)
		src, r.closer = unpacked, unpacked
	}
	r.in = bufio.NewReader(src)
	return r, nil
}

func (r *recordReader) close() { _ = r.closer.Close() } // a reader over memory has nothing to report

// next returns the next record, or io.EOF behind the last.
func (r *recordReader) next() (usecase.Message, error) {
	if r.read == r.batch.count {
		return usecase.Message{}, io.EOF
	}
	m, err := r.record()
	if err != nil {
		return usecase.Message{}, fmt.Errorf("%w: record behind offset %d in the batch at offset %d, which ends at %d: %w",
			usecase.ErrCorrupt, r.prev, r.batch.base, r.batch.last, err)
	}
	r.read++
	r.prev = m.Offset
	return m, nil
}

func (r *recordReader) record() (usecase.Message, error) {
	size, err := binary.ReadVarint(r.in)
	if err != nil {
		return usecase.Message{}, unexpectedEOF(err)
	}
	if size < 0 || size > maxRecord {
		return usecase.Message{}, fmt.Errorf("record of %d bytes", size)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r.in, body); err != nil {
		return usecase.Message{}, unexpectedEOF(err)
	}
	m, err := r.batch.parse(body)
	if err != nil {
		return usecase.Message{}, err
	}
	if m.Offset <= r.prev || m.Offset > r.batch.last {
		return usecase.Message{}, fmt.Errorf("offset %d is out of order", m.Offset)
	}
	if r.read == r.batch.count-1 {
		// More bytes than records would mean records that nobody sees.
		if _, err := r.in.ReadByte(); !errors.Is(err, io.EOF) {
			return usecase.Message{}, errors.New("bytes behind the last record")
		}
	}
	return m, nil
}

func unexpectedEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (b batch) parse(body []byte) (usecase.Message, error) {
	f := recordFields{rest: body}
	f.take(1) // attributes, unused by the format
	timeDelta := f.varint()
	offsetDelta := f.varint()
	m := usecase.Message{Offset: b.base + offsetDelta, Time: recordTime(b.firstTime + timeDelta)}
	if b.attributes&logAppendTime != 0 {
		m.Time = recordTime(b.maxTime)
	}
	m.Key = f.bytes()
	m.Value = f.bytes()
	headers := f.varint()
	if headers < 0 || headers > int64(len(f.rest)/2) { // a header has at least two bytes
		return usecase.Message{}, errors.New("header count is wrong")
	}
	for range headers {
		key := f.bytes()
		m.Headers = append(m.Headers, usecase.Header{Key: string(key), Value: f.bytes()})
	}
	if f.failed || len(f.rest) != 0 {
		return usecase.Message{}, errors.New("fields do not fill the record")
	}
	return m, nil
}

// recordTime keeps a producer's senseless timestamp inside what RFC 3339 and the database can write, the
// same way every time: the time is part of a dead letter's identity.
func recordTime(ms int64) time.Time {
	const lastOfYear9999 = 253402300799999
	return time.UnixMilli(min(max(ms, 0), lastOfYear9999)).UTC()
}

// recordFields reads the parts of a record; the first part that does not fit makes it fail for good.
type recordFields struct {
	rest   []byte
	failed bool
}

func (f *recordFields) take(n int64) []byte {
	if f.failed || n < 0 || n > int64(len(f.rest)) {
		f.failed = true
		return nil
	}
	part := f.rest[:n:n]
	f.rest = f.rest[n:]
	return part
}

func (f *recordFields) varint() int64 {
	v, n := binary.Varint(f.rest)
	if n <= 0 {
		f.failed = true
		return 0
	}
	f.rest = f.rest[n:]
	return v
}

// bytes returns nil for a null and an empty slice for an empty field.
func (f *recordFields) bytes() []byte {
	n := f.varint()
	if n == -1 {
		return nil
	}
	return f.take(n)
}
