package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

// Workers whose leases always run out answer late, twice, or never, while others work on the same charges.
func TestWorkersWithExpiredLeasesAnnounceEachMoveOnce(t *testing.T) {
	t.Parallel()
	e := newEnvWith(t, 10)
	const charges, workers = 150, 6
	deliveries := make([]usecase.Delivery, charges)
	for i := range deliveries {
		deliveries[i] = event(fmt.Sprint("o-", i))
	}
	want(t, e.reader(t, group, 0).take(t, deliveries...), charges, 0)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for ctx.Err() == nil {
				n, err := e.work(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				if n == 0 && e.settled(ctx, t) == charges {
					return
				}
			}
			t.Error("not all charges were settled in time")
		})
	}
	wg.Wait()
	e.count(t, charges, "SELECT count(*) FROM charge WHERE status IN ('succeeded', 'declined')")
	e.count(t, charges, "SELECT count(*) FROM charge_event WHERE to_status IN ('succeeded', 'declined')")
	e.count(t, 0, "SELECT count(*) FROM charge c WHERE version <> (SELECT count(*) FROM charge_event v WHERE v.event_id = c.event_id AND version IS NOT NULL)")
	e.count(t, 0, "SELECT count(*) FROM charge_event v LEFT JOIN outbox o USING (event_id, version) WHERE o.id IS NULL OR convert_from(payload, 'UTF8') NOT LIKE '%\"version\":' || v.version || '}'")
	e.count(t, 0, "SELECT count(*) FROM outbox WHERE channel = 'provider'")
	e.count(t, 0, "SELECT count(*) FROM charge_attempt WHERE outcome IS NULL")
	e.count(t, 0, "SELECT count(*) FROM charge c WHERE attempts <> (SELECT count(*) FROM charge_attempt a WHERE a.event_id = c.event_id)")
	e.count(t, 0, "SELECT count(*) FROM charge c WHERE status = 'succeeded' AND NOT EXISTS (SELECT FROM charge_attempt a WHERE a.event_id = c.event_id AND a.outcome = 'succeeded')")
	e.count(t, 0, "SELECT count(*) FROM charge c WHERE status = 'declined' AND NOT EXISTS (SELECT FROM charge_attempt a WHERE a.event_id = c.event_id AND a.outcome = 'declined')")
}

func (e env) settled(ctx context.Context, t *testing.T) int {
	t.Helper()
	var n int
	if err := e.pool.QueryRow(ctx, "SELECT count(*) FROM charge WHERE status IN ('succeeded', 'declined')").Scan(&n); err != nil {
		t.Error(err)
	}
	return n
}

// work claims, decides at random, and writes; some batches are written twice and some not at all.
func (e env) work(ctx context.Context) (int, error) {
	hasty := usecase.ClaimRules{Account: account, Lease: time.Millisecond, KeyWindow: keyWindow}
	claims, err := e.store.ClaimCharges(ctx, 10, hasty)
	if errors.Is(err, domain.ErrRetry) {
		return 1, nil
	}
	if err != nil || len(claims) == 0 {
		return 0, err //nolint:wrapcheck // a test
	}
	var batch []usecase.Settlement
	for _, c := range claims {
		switch rand.N(10) {
		case 0:
			batch = append(batch, settlement(c, domain.Succeeded, domain.StatusSucceeded))
		case 1:
			batch = append(batch, settlement(c, domain.Declined, domain.StatusDeclined))
		case 2: // never reports
		case 3, 4, 5:
			batch = append(batch, settlement(c, domain.NotSent, domain.StatusRequested))
		default:
			batch = append(batch, settlement(c, domain.Unknown, domain.StatusRequested))
		}
	}
	for range 1 + rand.N(2) {
		_, err := e.settle.Do(ctx, batch)
		if err != nil && !errors.Is(err, domain.ErrRetry) { // a deadlock: this batch is lost, as when the process dies
			return 0, err //nolint:wrapcheck // a test
		}
	}
	return len(claims), nil
}
