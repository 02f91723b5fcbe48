package usecase

import (
	"context"
	"fmt"

	"github.com/gofrs/uuid/v5"

	"billing/internal/core/domain"
)

// announce fixes the identity of the announcement of a settlement.
func (s *Settlement) announce(id uuid.UUID, version int32) {
	s.Announcement = &domain.Announcement{
		ID: id, Type: s.Status.Announcement(), OccurredAt: s.Now, Charge: s.EventID, Order: s.Order,
		ProviderRef: s.ProviderRef, Reason: s.Reason, Version: version,
	}
}

// Settle writes what claims came to.
type Settle struct {
	Queue ChargeQueue
	Codec Codec
	IDs   IDs
}

// SettleReport counts what a batch did, for the metrics at the edge.
type SettleReport struct {
	ByStatus map[domain.Status]int
	Fenced   int // claims that were no longer their owner's
	Late     int // charges settled by a late success all the same
}

// Do writes a batch in one statement. A verified success whose claim is no longer held settles the
// charge anyway, unless it is terminal: the money was taken, whoever asked for it.
func (s Settle) Do(ctx context.Context, batch []Settlement) (SettleReport, error) {
	for i := range batch {
		if err := s.encode(&batch[i]); err != nil {
			return SettleReport{}, err
		}
	}
	settled, err := s.Queue.SettleCharges(ctx, batch)
	if err != nil {
		return SettleReport{}, fmt.Errorf("settle %d charges: %w", len(batch), err)
	}
	report := SettleReport{ByStatus: settled.ByStatus, Fenced: len(settled.Fenced)}
	for _, late := range settled.Fenced {
		if late.Status != domain.StatusSucceeded {
			continue
		}
		done, err := s.Queue.SettleLate(ctx, late, func(version int32) (Settlement, error) {
			late.announce(s.IDs(), version+1)
			return late, s.encode(&late)
		})
		if err != nil {
			return report, fmt.Errorf("settle the late success of %s: %w", late.EventID, err)
		}
		if done {
			report.Late++
			report.ByStatus[domain.StatusSucceeded]++
		}
	}
	return report, nil
}

func (s Settle) encode(b *Settlement) error {
	if b.Announcement == nil {
		return nil
	}
	message, err := s.Codec.Announcement(*b.Announcement, b.Traceparent)
	if err != nil {
		return fmt.Errorf("encode the announcement of %s: %w", b.EventID, err)
	}
	b.Message = message
	return nil
}
