package usecase

import (
	"errors"
	"fmt"
	"time"
)

// PassAll stands, as Position.PassBelow, for "an operator released the partition": all that lies in the log when its owner
// sees it passes the brake.
const PassAll int64 = -1

// RulePartitionHalted counts partitions that wait for an operator's release, such as behind the brake. It is no rule of the
// audit: nothing is wrong with the data.
const RulePartitionHalted = "partition_halted"

const (
	brakeWindow = time.Minute
	// brakeMessages is how many messages a verdict needs: a share of a few says nothing.
	brakeMessages = 100
)

// Brake decides when refusals are no accident of single messages any more: a producer's new version, or a wrong topic, would
// empty itself into the dead letters. It looks at the last minute of one partition.
type Brake struct {
	Share float64 // of a minute's messages, at least 100, that may become dead letters; 0 = off

	seconds []brakeSecond // oldest first
}

// brakeSecond is what became of the messages of one second.
type brakeSecond struct {
	at                int64
	messages, letters int
}

// Trips reports whether the minute that ends now would have too large a share of dead letters if these messages were
// written. It remembers nothing.
func (b *Brake) Trips(now time.Time, messages, letters int) bool {
	if b.Share <= 0 || letters == 0 {
		return false // a good message is never what stops a partition
	}
	oldest := now.Add(-brakeWindow).Unix()
	for _, s := range b.seconds {
		if s.at > oldest {
			messages += s.messages
			letters += s.letters
		}
	}
	return messages >= brakeMessages && float64(letters) > b.Share*float64(messages)
}

// Count remembers messages that were written, and how many of them became dead letters.
func (b *Brake) Count(now time.Time, messages, letters int) {
	if b.Share <= 0 {
		return
	}
	at, oldest := now.Unix(), now.Add(-brakeWindow).Unix()
	for len(b.seconds) > 0 && b.seconds[0].at <= oldest {
		b.seconds = b.seconds[1:]
	}
	if n := len(b.seconds); n > 0 && b.seconds[n-1].at == at {
		b.seconds[n-1].messages += messages
		b.seconds[n-1].letters += letters
		return
	}
	b.seconds = append(b.seconds, brakeSecond{at, messages, letters})
}

// brakedError says that a chunk was not written because of the brake.
type brakedError struct{ reason string }

func (e *brakedError) Error() string { return e.reason }

func isBraked(err error) bool {
	_, ok := errors.AsType[*brakedError](err)
	return ok
}

// permit refuses a chunk that begins at from and would trip the brake. What an operator released passes.
func (p Partition) permit(from int64, messages, letters int) error {
	if from < p.brake.passBelow || !p.brake.Trips(p.Clock.Now(), messages, letters) {
		return nil
	}
	return &brakedError{fmt.Sprintf("dead-letter brake: more than %g of a minute's messages would become dead letters, %d of the next %d",
		p.brake.Share, letters, messages)}
}

// count tells the brake what a transaction that began at from has written.
func (p Partition) count(from int64, counts *Counts) {
	if from >= p.brake.passBelow {
		p.brake.Count(p.Clock.Now(), counts.Messages(), counts.Letters())
	}
}

// partitionBrake is the brake of one assignment. Offsets below passBelow were released.
type partitionBrake struct {
	Brake

	passBelow int64
}
