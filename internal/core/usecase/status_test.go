package usecase_test

import (
	"strings"
	"testing"
	"time"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

// calm is an overview of a service with nothing to complain about.
func calm() usecase.Overview {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	return usecase.Overview{
		Now: now, SchemaVersion: 2, SchemaRequired: 2, NearestDeadline: now.Add(time.Hour),
		Charges:    []usecase.ChargeCount{{Status: domain.StatusRequested, N: 3, Oldest: now.Add(-time.Second)}},
		Outbox:     []usecase.OutboxCount{{Channel: "kafka", Status: "PENDING", N: 2, Oldest: now, OldestDue: now}},
		Partitions: []usecase.PartitionState{{Topic: "orders", Next: 7}},
		Inbox:      usecase.InboxDays{N: 9, HasToday: true, HasTomorrow: true},
	}
}

// gateOf is a process whose gate has just closed.
func gateOf(state usecase.GateState) func(o *usecase.Overview) {
	return func(o *usecase.Overview) {
		o.Processes = []usecase.ProcessState{{Host: "pod-1", Roles: "charger", Gate: string(state), GateSince: &o.Now}}
	}
}

func TestCalmServiceHasNoTrouble(t *testing.T) {
	t.Parallel()
	if trouble := calm().FindTrouble(); len(trouble) > 0 {
		t.Errorf("trouble %+v", trouble)
	}
}

func TestEachTroubleNamesTheNextCommand(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change    func(o *usecase.Overview)
		why, next string
	}{
		"schema": {func(o *usecase.Overview) { o.SchemaVersion = 1 }, "version 1", "billing migrate up"},
		"no day": {func(o *usecase.Overview) { o.Inbox.HasTomorrow = false }, "partition", "billing migrate up"},
		"paused": {func(o *usecase.Overview) {
			o.Switches = []usecase.SwitchState{{Name: usecase.ChargingPaused, Actor: "ann"}}
		}, "ann", "billing resume"},
		"refused by the provider": {gateOf(usecase.GateUnauthorized), "token", "BILLING_PROVIDER_TOKEN"},
		"rejected in a row":       {gateOf(usecase.GateRejecting), "refused several charges", "BILLING_PROVIDER_URL"},
		"silent provider":         {gateOf(usecase.GateFailing), "no answer", "billing charges list"},
		"told to wait for long": {func(o *usecase.Overview) {
			gateOf(usecase.GateThrottled)(o)
			since := o.Now.Add(-time.Hour)
			o.Processes[0].GateSince = &since
		}, "come back", "billing charges list"},
		"history lost": {func(o *usecase.Overview) { o.Switches = []usecase.SwitchState{{Name: usecase.HistoryWasLost}} }, "history_lost", "billing history clear"},
		"gap": {func(o *usecase.Overview) {
			o.Partitions[0].Gap, o.Partitions[0].Halted = "beyond the end", "beyond the end"
		}, "beyond", "billing partitions accept-gap orders 0"},
		"halted": {func(o *usecase.Overview) { o.Partitions[0].Halted = "flood" }, "flood", "billing partitions release orders 0"},
		"parked": {func(o *usecase.Overview) { o.Charges[0].Status = domain.StatusParked }, "person", "billing charges list --status parked"},
		"refused token": {func(o *usecase.Overview) {
			o.Charges[0].LastOutcome, o.Charges[0].Oldest = domain.NotSent, o.Now.Add(-time.Hour)
		}, "401", "billing charges list --status requested"},
		"key window over": {func(o *usecase.Overview) { o.NearestDeadline = o.Now.Add(-time.Minute) }, "key window", "billing charges list --status requested"},
		"no relay":        {func(o *usecase.Overview) { o.Outbox[0].Oldest = o.Now.Add(-time.Hour) }, "relay", "role relay"},
		"dead owner": {func(o *usecase.Overview) {
			o.Outbox[0] = usecase.OutboxCount{Channel: "provider", Status: "PUBLISHING", N: 1, Expired: 1, OldestDue: o.Now.Add(-time.Hour)}
		}, "owner", "role charger"},
		"dead letters": {func(o *usecase.Overview) {
			o.DeadLetters = []usecase.ReasonCount{{Reason: domain.ReasonInvalidJSON, N: 4}}
		}, "invalid_json", "billing deadletters list"},
	} {
		o := calm()
		test.change(&o)
		trouble := o.FindTrouble()
		if len(trouble) != 1 || !strings.Contains(trouble[0].Why, test.why) || !strings.Contains(trouble[0].Next, test.next) {
			t.Errorf("%s: %+v, want one with %q and %q", name, trouble, test.why, test.next)
		}
	}
}

func TestWaitingChargesAreNoTroubleWhileChargingIsPaused(t *testing.T) {
	t.Parallel()
	o := calm()
	o.Charges[0].Oldest = o.Now.Add(-time.Hour)
	o.Switches = []usecase.SwitchState{{Name: usecase.ChargingPaused}}
	if trouble := o.FindTrouble(); len(trouble) != 1 {
		t.Errorf("trouble %+v, want the pause alone", trouble)
	}
}
