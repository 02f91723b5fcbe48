package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/jackc/pgx/v5/pgconn"

	"billing/internal/core/domain"
)

// The SQLSTATEs that are decided by. BL codes are raised by our own functions and triggers.
const (
	mixedChunk       = "BL001"
	fencedPosition   = "BL002"
	deadlock         = "40P01"
	serialization    = "40001"
	lockNotAvailable = "55P03"
	queryCanceled    = "57014"
	checkViolation   = "23514"
	undefinedTable   = "42P01"
	uniqueViolation  = "23505"
)

// code returns the SQLSTATE of err, empty when it has none.
func code(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// wrap says what was being done and classifies err at the border where the knowledge is. Data and
// integrity errors stay plain: they may be the fault of one message. All else is an outage, because no
// message can cause it: connection, privileges, disk, a missing table or a missing partition.
func wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	if class := classify(err); class != nil {
		return fmt.Errorf("%s: %w: %w", doing, class, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

func classify(err error) error {
	for _, own := range []error{domain.ErrFenced, domain.ErrMixed, domain.ErrRetry, domain.ErrOutage} {
		if errors.Is(err, own) {
			return nil // classified below us
		}
	}
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return domain.ErrOutage
	}
	switch e.Code {
	case mixedChunk:
		return domain.ErrMixed
	case fencedPosition:
		return domain.ErrFenced
	case deadlock, serialization, lockNotAvailable, queryCanceled:
		return domain.ErrRetry
	case checkViolation:
		if e.ConstraintName == "" { // no partition for an id inside the window: maintenance is broken
			return domain.ErrOutage
		}
		return nil
	}
	switch e.Code[:min(len(e.Code), 2)] {
	case "22", "23", "54", "BL":
		return nil
	default:
		return domain.ErrOutage
	}
}

// Describe says in one line what keeps the database from answering, without user, host or secret.
func Describe(err error) string {
	if text := describePooler(err); text != "" {
		return text
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return "the database refuses: " + e.Message + " (SQLSTATE " + e.Code + ")"
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		return "the database cannot be reached: " + e.Err.Error()
	}
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		return "the database's host is not found: " + e.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "the database does not answer in time"
	}
	return "the database cannot be reached"
}
