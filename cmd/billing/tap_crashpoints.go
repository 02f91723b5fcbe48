//go:build crashpoints

package main

import (
	"billing/internal/core/usecase"
	"billing/internal/proof/mutants"
	"billing/internal/proof/point"
)

func tapInbox(i usecase.Inbox) usecase.Inbox               { return mutants.Inbox(point.Inbox(i)) }
func tapLog(l usecase.PartitionLog) usecase.PartitionLog   { return mutants.Log(point.Log(l)) }
func tapCharges(q usecase.ChargeQueue) usecase.ChargeQueue { return mutants.Charges(point.Charges(q)) }

func tapProvider(p usecase.Provider) usecase.Provider { return mutants.Provider(point.Provider(p)) }

func tapMessages(q usecase.MessageQueue) usecase.MessageQueue {
	return mutants.Messages(point.Messages(q))
}
func tapPublisher(p usecase.Publisher) usecase.Publisher { return mutants.Publisher(p) }
