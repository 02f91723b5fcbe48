package kafka

import "time"

// Observer is told what the group and its partitions do, for metrics. Its methods are called from
// several goroutines and must not block.
type Observer interface {
	// Assigned is called when a partition becomes this process's.
	Assigned(topic string, partition int32)
	// Revoked is called when its handler has ended.
	Revoked(topic string, partition int32)
	// Lag tells how many offsets lie between the position and the last stable offset.
	Lag(topic string, partition int32, n int64)
	// HeldBack tells how many offsets lie behind the last stable one: a transaction that stays open holds them back.
	HeldBack(topic string, partition int32, n int64)
	// AbortedRecords counts records of aborted transactions that were passed over.
	AbortedRecords(topic string, partition int32, n int)
	// Rebalanced is called once for each generation that was joined.
	Rebalanced()
	// Drained tells how long a handler took to end after its partition was revoked.
	Drained(d time.Duration)
	// CommitFailed tells the broker's error code of a failed offset commit, 0 when there was no answer.
	CommitFailed(code int)
}
