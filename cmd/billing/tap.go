//go:build !crashpoints

package main

import "billing/internal/core/usecase"

// The taps are where a build with the tag crashpoints hangs points and mutants on the ports, see
// internal/proof. In every other build each returns what it was given.
func tapInbox(i usecase.Inbox) usecase.Inbox                  { return i }
func tapLog(l usecase.PartitionLog) usecase.PartitionLog      { return l }
func tapCharges(q usecase.ChargeQueue) usecase.ChargeQueue    { return q }
func tapProvider(p usecase.Provider) usecase.Provider         { return p }
func tapMessages(q usecase.MessageQueue) usecase.MessageQueue { return q }
func tapPublisher(p usecase.Publisher) usecase.Publisher      { return p }
