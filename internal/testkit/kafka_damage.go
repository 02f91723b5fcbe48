package testkit

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
)

// Damage flips a bit in the batch that begins at offset, in the first segment of a partition, as a failing disk would: the
// broker serves it all the same, and its checksum is wrong.
func (k *ApacheKafka) Damage(topic string, partition int32, offset int64) error {
	path := filepath.Join(k.dir.join("data"), fmt.Sprintf("%s-%d", topic, partition), fmt.Sprintf("%020d.log", 0))
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open segment: %w", err)
	}
	defer func() { _ = file.Close() }()
	header := make([]byte, 12) // base offset and length of what follows
	for at := int64(0); ; {
		if _, err := file.ReadAt(header, at); err != nil {
			return fmt.Errorf("find the batch at offset %d: %w", offset, err)
		}
		next := at + 12 + int64(binary.BigEndian.Uint32(header[8:]))
		if int64(binary.BigEndian.Uint64(header)) != offset {
			at = next
			continue
		}
		last := make([]byte, 1)
		if _, err := file.ReadAt(last, next-1); err != nil {
			return fmt.Errorf("read the batch at offset %d: %w", offset, err)
		}
		last[0] ^= 1
		if _, err := file.WriteAt(last, next-1); err != nil {
			return fmt.Errorf("damage the batch at offset %d: %w", offset, err)
		}
		return nil
	}
}
