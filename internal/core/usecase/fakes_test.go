package usecase_test

import (
	"context"
	"sync"
	"time"

	"github.com/gofrs/uuid/v5"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

// clock is a clock that stands still but for Sleep and advance.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Sleep(ctx context.Context, d time.Duration) bool {
	c.advance(d)
	return ctx.Err() == nil
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func half() float64 { return 0.5 }

var ids = func() usecase.IDs {
	var mu sync.Mutex
	var n byte
	return func() uuid.UUID {
		mu.Lock()
		defer mu.Unlock()
		n++
		return uuid.UUID{15: n}
	}
}()

// plainCodec makes bytes that say what they are.
type plainCodec struct{}

func (plainCodec) Request(o domain.Order) ([]byte, error) { return []byte("request " + o.OrderID), nil }

func (plainCodec) Announcement(a domain.Announcement, trace string) (usecase.OutboxMessage, error) {
	return usecase.OutboxMessage{
		EventType: a.Type, Topic: "results", Key: []byte(a.Order.OrderID),
		Headers: []usecase.Header{{Key: "traceparent", Value: []byte(trace)}},
	}, nil
}

func (plainCodec) DeadLetter(usecase.DeadLetter) (usecase.OutboxMessage, error) {
	return usecase.OutboxMessage{EventType: "DeadLetter", Topic: "dlq"}, nil
}

// provider answers from a script and remembers what it was asked.
type provider struct {
	caps    usecase.Capabilities
	charge  domain.Answer
	lookup  domain.Answer
	charges int
	lookups int
	keys    []uuid.UUID
	bodies  []string
}

func (p *provider) Capabilities() usecase.Capabilities { return p.caps }

func (p *provider) Charge(_ context.Context, key uuid.UUID, request []byte, _ domain.Order, _ string) domain.Answer {
	p.charges++
	p.keys = append(p.keys, key)
	p.bodies = append(p.bodies, string(request))
	return p.charge
}

func (p *provider) Lookup(context.Context, uuid.UUID, domain.Order, string) domain.Answer {
	p.lookups++
	return p.lookup
}
