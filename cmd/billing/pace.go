package main

import (
	"context"
	"time"

	"billing/internal/core/usecase"
)

// pace bounds what background work takes from the database: it rests a number of times as long as it worked.
type pace struct {
	clock usecase.Clock
	rests int
	most  time.Duration
	begun time.Time
}

func newPace(clock usecase.Clock, rests int, most time.Duration) *pace {
	return &pace{clock: clock, rests: rests, most: most, begun: clock.Now()}
}

// rest ends a stretch of work, rests for it, at most as long as the pace allows or until ctx ends, and begins the next stretch.
func (p *pace) rest(ctx context.Context) {
	p.clock.Sleep(ctx, min(time.Duration(p.rests)*p.clock.Now().Sub(p.begun), p.most))
	p.begun = p.clock.Now()
}
