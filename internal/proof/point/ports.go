package point

import (
	"context"
	"net/http/httptrace"
	"time"

	"github.com/gofrs/uuid/v5"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

// Log puts points around an assigned partition.
func Log(l usecase.PartitionLog) usecase.PartitionLog { return partitionLog{l} }

type partitionLog struct{ usecase.PartitionLog }

func (l partitionLog) Fetch(ctx context.Context, offset int64) (usecase.Fetched, error) {
	fetched, err := l.PartitionLog.Fetch(ctx, offset)
	if len(fetched.Deliveries) > 0 {
		Hit(Fetched)
	}
	return fetched, err
}

func (l partitionLog) Commit(ctx context.Context, next int64) error {
	err := l.PartitionLog.Commit(ctx, next)
	if err == nil {
		Hit(OffsetCommitted)
	}
	return err
}

// Inbox puts points around the way in.
func Inbox(i usecase.Inbox) usecase.Inbox { return inbox{i} }

type inbox struct{ usecase.Inbox }

func (i inbox) PutPosition(ctx context.Context, src usecase.Source, p usecase.Position) error {
	err := i.Inbox.PutPosition(ctx, src, p)
	if err == nil {
		Hit(PositionPut)
	}
	return err
}

func (i inbox) AcceptChunk(ctx context.Context, c usecase.Chunk, limits usecase.Limits) (usecase.Accepted, error) {
	Hit(AcceptBefore)
	accepted, err := i.Inbox.AcceptChunk(ctx, c, limits)
	if err == nil {
		Hit(AcceptCommitted)
	}
	return accepted, err
}

func (i inbox) InTx(ctx context.Context, fn func(ctx context.Context, tx usecase.AcceptTx) error) error {
	err := i.Inbox.InTx(ctx, func(ctx context.Context, tx usecase.AcceptTx) error {
		err := fn(ctx, tx)
		if err == nil {
			Hit(JudgeOpen)
		}
		return err
	})
	if err == nil {
		Hit(JudgeCommitted)
	}
	return err
}

// Charges puts points around claiming and settling.
func Charges(q usecase.ChargeQueue) usecase.ChargeQueue { return charges{q} }

type charges struct{ usecase.ChargeQueue }

func (q charges) ClaimCharges(ctx context.Context, n int, rules usecase.ClaimRules) ([]usecase.Claim, error) {
	claims, err := q.ChargeQueue.ClaimCharges(ctx, n, rules)
	if len(claims) > 0 {
		Hit(ChargesClaimed)
	}
	return claims, err
}

func (q charges) SettleCharges(ctx context.Context, batch []usecase.Settlement) (usecase.Settled, error) {
	Hit(SettleBefore)
	settled, err := q.ChargeQueue.SettleCharges(ctx, batch)
	if err == nil {
		Hit(SettleCommitted)
	}
	return settled, err
}

// Provider puts points around a request.
func Provider(p usecase.Provider) usecase.Provider { return provider{p} }

type provider struct{ usecase.Provider }

func (p provider) Charge(ctx context.Context, key uuid.UUID, request []byte, order domain.Order, traceparent string) domain.Answer {
	Hit(SendBefore)
	answer := p.Provider.Charge(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest:         func(httptrace.WroteRequestInfo) { Hit(SendWritten) },
		GotFirstResponseByte: func() { Hit(SendHeaders) },
	}), key, request, order, traceparent)
	Hit(SendAnswered)
	return answer
}

// Messages puts points around the relay's queue.
func Messages(q usecase.MessageQueue) usecase.MessageQueue { return messages{q} }

type messages struct{ usecase.MessageQueue }

func (q messages) ClaimMessages(ctx context.Context, n int, lease time.Duration) ([]usecase.OutboxMessage, error) {
	claimed, err := q.MessageQueue.ClaimMessages(ctx, n, lease)
	if len(claimed) > 0 {
		Hit(MessagesClaimed)
	}
	return claimed, err
}

func (q messages) AckMessages(ctx context.Context, refs []usecase.MessageRef) (int, error) {
	Hit(MessagesProduced)
	fenced, err := q.MessageQueue.AckMessages(ctx, refs)
	if err == nil {
		Hit(MessagesAcked)
	}
	return fenced, err
}

func (q messages) ReleaseMessages(ctx context.Context, refs []usecase.MessageRef) error {
	err := q.MessageQueue.ReleaseMessages(ctx, refs)
	if err == nil {
		Hit(MessagesReleased)
	}
	return err
}
