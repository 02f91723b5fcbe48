package usecase

import "errors"

// ErrOffsetOutOfRange says that the log has no such offset any more, or not yet: the position has to be
// chosen again.
var ErrOffsetOutOfRange = errors.New("the offset lies outside the log")

// ErrCorrupt says that records cannot be read as the format says: damage on a disk, a codec that this version does not know.
// The error names the offsets. No position moves over such a place by itself: an operator decides.
var ErrCorrupt = errors.New("corrupt records")
