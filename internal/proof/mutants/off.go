//go:build !mutants

package mutants

import "billing/internal/core/usecase"

// Inbox returns its argument: this binary was built without mutants.
func Inbox(i usecase.Inbox) usecase.Inbox { return i }

// Log returns its argument.
func Log(l usecase.PartitionLog) usecase.PartitionLog { return l }

// Charges returns its argument.
func Charges(q usecase.ChargeQueue) usecase.ChargeQueue { return q }

// Provider returns its argument.
func Provider(p usecase.Provider) usecase.Provider { return p }

// Messages returns its argument.
func Messages(q usecase.MessageQueue) usecase.MessageQueue { return q }

// Publisher returns its argument.
func Publisher(p usecase.Publisher) usecase.Publisher { return p }
