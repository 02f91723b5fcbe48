package usecase_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

// shelf is a queue of messages and a broker that refuses some of them. It notes what happened in which order.
type shelf struct {
	mu        sync.Mutex
	waiting   []usecase.OutboxMessage
	refuse    map[int64]bool
	ackErr    error
	published []int64
	acked     []int64
	released  []int64
}

func newShelf(n int64, topics ...string) *shelf {
	s := &shelf{refuse: map[int64]bool{}}
	for id := range n {
		s.waiting = append(s.waiting, usecase.OutboxMessage{ID: id, Attempt: 1, Topic: topics[id%int64(len(topics))]})
	}
	return s
}

func (s *shelf) ClaimMessages(_ context.Context, n int, _ time.Duration) ([]usecase.OutboxMessage, error) {
	taken := s.waiting[:min(n, len(s.waiting))]
	s.waiting = s.waiting[len(taken):]
	return taken, nil
}

func (s *shelf) Publish(_ context.Context, topic string, messages []usecase.OutboxMessage) []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	results := make([]error, len(messages))
	for i, m := range messages {
		if m.Topic != topic {
			results[i] = errors.New("another topic's message")
		}
		if s.refuse[m.ID] {
			results[i] = errors.New("refused")
			continue
		}
		s.published = append(s.published, m.ID)
	}
	return results
}

func (s *shelf) AckMessages(_ context.Context, refs []usecase.MessageRef) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range refs {
		if !slices.Contains(s.published, r.ID) {
			return 0, errors.New("acknowledged before it was published")
		}
		s.acked = append(s.acked, r.ID)
	}
	return 0, s.ackErr
}

func (s *shelf) ReleaseMessages(_ context.Context, refs []usecase.MessageRef) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range refs {
		s.released = append(s.released, r.ID)
	}
	return nil
}

func (s *shelf) relay(limit int) usecase.Relay {
	return usecase.Relay{
		Queue: s, Publisher: s, Backoff: domain.Backoff{Min: time.Second, Max: time.Minute}, Random: half, Limit: limit,
		Lease: time.Minute, Timeout: time.Minute,
	}
}

func TestMessagesArePublishedInOrderAndAcknowledgedAfterwards(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1, 2, 7, 100} {
		s := newShelf(7, "t")
		for {
			report, busy, err := s.relay(limit).Step(t.Context())
			if err != nil || report.Published != report.Written["t"] {
				t.Fatalf("%+v, %v", report, err)
			}
			if !busy {
				break
			}
		}
		if want := []int64{0, 1, 2, 3, 4, 5, 6}; !slices.Equal(s.published, want) || !slices.Equal(s.acked, want) {
			t.Errorf("limit %d: published %v, acknowledged %v", limit, s.published, s.acked)
		}
	}
}

func TestWhatTheBrokerRefusesIsReleasedAndHoldsUpNobody(t *testing.T) {
	t.Parallel()
	s := newShelf(8, "t", "u")
	s.refuse[1], s.refuse[6] = true, true
	report, busy, err := s.relay(8).Step(t.Context())
	if err != nil || !busy || report.Err == nil || report.Published != 6 || report.Failed["t"] != 1 || report.Failed["u"] != 1 {
		t.Errorf("%+v, %v", report, err)
	}
	slices.Sort(s.acked)
	slices.Sort(s.released)
	if !slices.Equal(s.acked, []int64{0, 2, 3, 4, 5, 7}) || !slices.Equal(s.released, []int64{1, 6}) {
		t.Errorf("acknowledged %v, released %v", s.acked, s.released)
	}
}

func TestAFailedAcknowledgementIsReported(t *testing.T) {
	t.Parallel()
	s := newShelf(4, "t")
	s.ackErr = errors.New("away")
	if _, _, err := s.relay(4).Step(t.Context()); !errors.Is(err, s.ackErr) {
		t.Errorf("got %v", err)
	}
	if len(s.published) != 4 {
		t.Errorf("published %v: the second half does not depend on the first one's acknowledgement", s.published)
	}
}
