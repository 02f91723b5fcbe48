package main

import (
	"strings"
	"testing"

	"billing/internal/paysim"
)

// world is a run without a fault: two orders, one of them declined, a redelivery, another sum, a malformed
// message.
func world() facts {
	paid := order{id: "o-1", customer: "c-1", amount: 100}
	refused := order{id: "o-2", customer: "c-2", amount: 200}
	other := paid
	other.amount++
	return facts{
		sent: []*message{
			{kind: confirmation, event: "e-1", order: paid, offset: 0},
			{kind: confirmation, event: "e-2", order: refused, offset: 1},
			{kind: redelivery, event: "e-1", order: paid, offset: 2},
			{kind: otherSum, event: "e-3", order: other, offset: 3},
			{kind: malformed, event: "e-4", order: order{id: "bad"}, reason: "invalid_json", offset: 4},
		},
		journal: paysim.Journal{
			Requests: []paysim.Request{
				{Call: paysim.Charges, Key: "e-1", BodySHA256: "a", Script: answerLost.String()},
				{Call: paysim.Charges, Key: "e-1", BodySHA256: "a"},
				{Call: paysim.Charges, Key: "e-2", BodySHA256: "b"},
			},
			Effects: []paysim.Effect{
				{Key: "e-1", OrderID: "o-1", CustomerID: "c-1", Amount: 100, Currency: currency, ChargeID: "ch-1", Status: paysim.Succeeded},
				{Key: "e-2", OrderID: "o-2", CustomerID: "c-2", Amount: 200, Currency: currency, ChargeID: "ch-2", Status: paysim.Declined},
			},
		},
		announcements: []announcement{
			{ID: "a-1", Type: "ChargeSucceeded", Order: "o-1", Customer: "c-1", Source: "e-1", Amount: 100, Currency: currency, Ref: new("ch-1"), Version: 1},
			{ID: "a-2", Type: "ChargeDeclined", Order: "o-2", Customer: "c-2", Source: "e-2", Amount: 200, Currency: currency, Version: 1},
			{ID: "a-2", Type: "ChargeDeclined", Order: "o-2", Customer: "c-2", Source: "e-2", Amount: 200, Currency: currency, Version: 1},
		},
		letters: map[place]string{{0, 3}: "order_already_charged", {0, 4}: "invalid_json"},
	}
}

func TestFactsThatAgreeAreClean(t *testing.T) {
	t.Parallel()
	v := judge(world())
	if !v.clean() {
		t.Errorf("got doubles %v, lost %v, contradictions %v", v.doubles, v.lost, v.wrong)
	}
	if v.confirmed != 2 || v.charged != 1 || v.declined != 1 || v.redelivered != 1 || v.seconds != 1 || v.malformed != 1 || v.answersLost != 1 {
		t.Errorf("counted %+v", v)
	}
}

func TestEveryFaultIsFound(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		harm func(*facts)
		find func(verdict) []string
		says string
	}{
		"charged twice": {func(f *facts) {
			again := f.journal.Effects[0]
			again.Key = "e-3"
			f.journal.Effects = append(f.journal.Effects, again)
		}, doubles, "o-1"},
		"never charged":            {func(f *facts) { f.journal.Effects = f.journal.Effects[:1] }, lost, "o-2"},
		"never announced":          {func(f *facts) { f.announcements = f.announcements[1:] }, lost, "never announced"},
		"malformed and forgotten":  {func(f *facts) { delete(f.letters, place{0, 4}) }, lost, "invalid_json"},
		"other sum and forgotten":  {func(f *facts) { delete(f.letters, place{0, 3}) }, lost, "o-1"},
		"refused for another sake": {func(f *facts) { f.letters[place{0, 4}] = "invalid_field" }, wrong, "invalid_field"},
		"good message refused":     {func(f *facts) { f.letters[place{0, 0}] = "invalid_json" }, wrong, "good message"},
		"letter of nothing":        {func(f *facts) { f.letters[place{1, 0}] = "invalid_json" }, wrong, "nobody sent"},
		"other amount charged":     {func(f *facts) { f.journal.Effects[0].Amount = 101 }, wrong, "charged as"},
		"charge that nobody sent":  {func(f *facts) { f.journal.Effects[0].Key = "e-9" }, wrong, "nobody sent"},
		"malformed one charged":    {func(f *facts) { f.journal.Effects[0].Key = "e-4" }, wrong, "nobody sent"},
		"announced as another":     {func(f *facts) { f.announcements[0].Type = "ChargeDeclined" }, wrong, "announced as ChargeDeclined"},
		"announced without charge": {func(f *facts) { f.announcements[0].Source = "e-9" }, wrong, "knows nothing"},
		"two identities": {func(f *facts) {
			f.announcements[2].ID = "a-3"
		}, wrong, "as a-2 and as a-3"},
		"key with other bytes": {func(f *facts) { f.journal.Requests[1].BodySHA256 = "c" }, wrong, "different bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := world()
			tc.harm(&f)
			v := judge(f)
			if found := strings.Join(tc.find(v), "\n"); !strings.Contains(found, tc.says) {
				t.Errorf("got %q, want it to mention %q; verdict %+v", found, tc.says, v)
			}
		})
	}
}

func doubles(v verdict) []string { return v.doubles }
func lost(v verdict) []string    { return v.lost }
func wrong(v verdict) []string   { return v.wrong }

func TestOrderThatWasDeclinedMayBeChargedUnderItsSecondEvent(t *testing.T) {
	t.Parallel()
	f := world()
	o := order{id: "o-2", customer: "c-2", amount: 200}
	f.sent = append(f.sent, &message{kind: secondID, event: "e-5", order: o, offset: 5})
	f.journal.Effects = append(f.journal.Effects,
		paysim.Effect{Key: "e-5", OrderID: "o-2", CustomerID: "c-2", Amount: 200, Currency: currency, ChargeID: "ch-5", Status: paysim.Succeeded})
	f.announcements = append(f.announcements,
		announcement{ID: "a-5", Type: "ChargeSucceeded", Order: "o-2", Customer: "c-2", Source: "e-5", Amount: 200, Currency: currency, Ref: new("ch-5"), Version: 1})
	if v := judge(f); !v.clean() || v.charged != 2 {
		t.Errorf("got %+v, want two orders charged", v)
	}
}
