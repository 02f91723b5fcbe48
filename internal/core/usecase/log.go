package usecase

import "errors"

// ErrOffsetOutOfRange says that the log has no such offset any more, or not yet: the position has to be
// chosen again.
var ErrOffsetOutOfRange = errors.New("the offset lies outside the log")
