package postgres

import (
	"context"
	"time"

	"billing/internal/core/usecase"
)

// retentionSQL has one file for each kind, retention_<kind>.sql.
var retentionSQL = func() map[usecase.Remains]string {
	statements := map[usecase.Remains]string{}
	for _, kind := range usecase.AllRemains() {
		statements[kind] = statement("retention_" + string(kind))
	}
	return statements
}()

// Purge implements usecase.RetentionStore by functions that run with the owner's rights and keep out everybody else.
func (s *Store) Purge(ctx context.Context, kind usecase.Remains, period time.Duration, after string, n int) (usecase.PurgePage, error) {
	var page usecase.PurgePage
	err := s.pool.QueryRow(ctx, retentionSQL[kind], period.Seconds(), after, n).Scan(&page.Deleted, &page.Next)
	if page.Deleted < 0 {
		page.Deleted, page.Busy = 0, true
	}
	return page, wrap("purge "+string(kind), err)
}
