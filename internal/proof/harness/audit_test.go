package harness

import (
	"io"
	"testing"
	"time"

	"billing/internal/paysim"
)

// world is a system in which one order was confirmed, charged and announced, and one message was refused.
func world() (*rig, *facts) {
	good := &entry{Kind: first, Event: "e-1", Order: "o-1", Amount: 100}
	bad := &entry{Kind: malformed, Event: "e-2", Order: "bad-1", Reason: "invalid_amount"}
	good.acked.Store(true)
	bad.acked.Store(true)
	ref := "ch_1"
	now := time.Now()
	request := paysim.Request{Call: paysim.Charges, Key: "e-1", BodySHA256: "b", Time: now}
	effect := paysim.Effect{
		Key: "e-1", OrderID: "o-1", CustomerID: "c", Amount: 100, Currency: "RUB", ChargeID: ref, Status: paysim.Succeeded,
	}
	f := &facts{
		entries:    []*entry{good, bad},
		places:     map[*entry][]place{good: {{0, 0}}, bad: {{0, 1}}},
		requests:   []paysim.Request{request},
		provider:   paysim.Journal{Requests: []paysim.Request{request}, Effects: []paysim.Effect{effect}}.Audit(),
		told:       map[string][]told{"e-1": {{ID: "a-1", Type: "ChargeSucceeded", Order: "o-1", Customer: "c", Source: "e-1", Amount: 100, Currency: "RUB", Ref: &ref, Version: 1}}},
		copies:     map[place]string{{0, 1}: "invalid_amount"},
		letters:    map[place]string{{0, 1}: "invalid_amount"},
		charges:    map[string]charge{"e-1": {order: "o-1", customer: "c", amount: 100, currency: "RUB", status: "succeeded", ref: &ref, least: 1, most: 1}},
		duplicates: map[string]string{},
	}
	o := Options{Out: io.Discard}
	return &rig{o: o, t: o.timing(), book: newBook(io.Discard)}, f
}

func TestTheAuditFindsNothingInAWorldInOrder(t *testing.T) {
	t.Parallel()
	r, f := world()
	if found := r.judge(f, false); found.total() != 0 {
		t.Errorf("found %s: %v", found.String(), found.examples)
	}
}

func TestTheAuditSeesWhatIsWrong(t *testing.T) {
	t.Parallel()
	change := func(f *facts, with func(c *charge)) {
		c := f.charges["e-1"]
		with(&c)
		f.charges["e-1"] = c
	}
	effect := func(key, order string, amount int64) func(f *facts) {
		return func(f *facts) {
			e := paysim.Effect{Key: key, OrderID: order, CustomerID: "c", Amount: amount, Currency: "RUB", Status: paysim.Succeeded}
			f.provider.EffectsByKey[key] = append(f.provider.EffectsByKey[key], e)
			f.provider.EffectsByOrder[order] = append(f.provider.EffectsByOrder[order], e)
		}
	}
	for name, tc := range map[string]struct {
		kind  string
		spoil func(f *facts)
	}{
		"money taken twice":                 {"double", effect("e-9", "o-1", 100)},
		"money taken for nobody":            {"identity", effect("e-9", "o-9", 100)},
		"another amount taken":              {"amount", func(f *facts) { f.provider.EffectsByKey["e-1"][0].Amount = 99 }},
		"no money taken":                    {"lost", func(f *facts) { delete(f.provider.EffectsByKey, "e-1") }},
		"an order without charge":           {"lost", func(f *facts) { delete(f.charges, "e-1") }},
		"a charge that waits":               {"stuck", func(f *facts) { change(f, func(c *charge) { c.status = "requested" }) }},
		"a charge that is parked":           {"stuck", func(f *facts) { change(f, func(c *charge) { c.status = "parked" }) }},
		"declined although money was taken": {"lost", func(f *facts) { change(f, func(c *charge) { c.status = "declined" }) }},
		"nobody was told":                   {"unannounced", func(f *facts) { delete(f.told, "e-1") }},
		"told of another amount":            {"amount", func(f *facts) { f.told["e-1"][0].Amount = 1 }},
		"told of another reference":         {"identity", func(f *facts) { other := "ch_2"; f.told["e-1"][0].Ref = &other }},
		"a version under two identities":    {"identity", func(f *facts) { a := f.told["e-1"][0]; a.ID = "a-2"; f.told["e-1"] = append(f.told["e-1"], a) }},
		"the second version first":          {"order", func(f *facts) { f.told["e-1"][0].Version = 2 }},
		"refused without dead letter":       {"lost", func(f *facts) { clear(f.letters); clear(f.copies) }},
		"refused for another reason":        {"lost", func(f *facts) { f.letters[place{0, 1}] = "invalid_json"; f.copies[place{0, 1}] = "invalid_json" }},
		"a good message refused":            {"refused", func(f *facts) { f.letters[place{0, 0}] = "invalid_json"; f.copies[place{0, 0}] = "invalid_json" }},
		"a dead letter without copy":        {"unannounced", func(f *facts) { clear(f.copies) }},
		"a request without attempt":         {"attempts", func(f *facts) { f.provider.RequestsByKey["e-1"] = 2 }},
		"an answer without request":         {"attempts", func(f *facts) { delete(f.provider.RequestsByKey, "e-1") }},
		"other bytes under one key":         {"identity", func(f *facts) { f.provider.BodiesByKey["e-1"]["other"] = 1 }},
		"a request after the key window": {"window", func(f *facts) {
			q := f.requests[0]
			q.Time = q.Time.Add(13 * time.Hour)
			f.requests = append(f.requests, q)
		}},
		"an acknowledged message that is not": {"broker", func(f *facts) { clear(f.places) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, f := world()
			tc.spoil(f)
			if found := r.judge(f, false); found.count[tc.kind] == 0 {
				t.Errorf("found %s, want %s", found.String(), tc.kind)
			}
		})
	}
}

// The lost history had refused a second event, because its order's first charge was open. Read again it is a charge that the
// provider does not know, and a person decides. Nothing else may be parked, and nothing without a restore.
func TestASecondEventMayBeParkedAfterARestoreOnly(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		kind     kind
		restored bool
		sound    bool
	}{
		"a second event after a restore": {secondOther, true, true},
		"a second event":                 {secondOther, false, false},
		"a first event after a restore":  {first, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, f := world()
			declined := f.charges["e-1"]
			declined.status = "declined"
			f.charges["e-1"] = declined
			f.provider.EffectsByKey["e-1"][0].Status = paysim.Declined
			f.told["e-1"][0].Type = "ChargeDeclined"
			again := &entry{Kind: tc.kind, Event: "e-3", Order: "o-1", Amount: 50}
			f.entries = append(f.entries, again)
			f.places[again] = []place{{0, 2}}
			f.copies[place{0, 2}] = "order_already_charged"
			f.charges["e-3"] = charge{order: "o-1", customer: "c", amount: 50, currency: "RUB", status: "parked"}
			f.told["e-3"] = []told{{ID: "a-3", Type: "ChargeParked", Order: "o-1", Customer: "c", Source: "e-3", Amount: 50, Currency: "RUB", Version: 1}}
			if found := r.judge(f, tc.restored); (found.total() == 0) != tc.sound {
				t.Errorf("found %s: %v", found.String(), found.examples)
			}
		})
	}
}

// After a decline the order was taken by an event with another amount; the next one with that amount is its duplicate, and of
// nothing else.
func TestASecondOtherAmountMayBeADuplicateOfWhatTookTheOrder(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		amount int64
		of     string
		sound  bool
	}{
		"of the charge that took the order": {101, "e-3", true},
		"of the declined charge":            {101, "e-1", false},
		"of a charge with another amount":   {102, "e-3", false},
		"of nothing":                        {101, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, f := world()
			first := f.charges["e-1"]
			first.status = "declined"
			f.charges["e-1"] = first
			f.provider.EffectsByKey["e-1"][0].Status = paysim.Declined
			f.told["e-1"][0].Type = "ChargeDeclined"
			taker, again := &entry{Kind: secondOther, Event: "e-3", Order: "o-1", Amount: 101}, &entry{Kind: secondOther, Event: "e-4", Order: "o-1", Amount: tc.amount}
			f.entries = append(f.entries, taker, again)
			f.places[taker], f.places[again] = []place{{0, 2}}, []place{{0, 3}}
			f.charges["e-3"] = charge{order: "o-1", customer: "c", amount: 101, currency: "RUB", status: "succeeded", least: 1, most: 1}
			effect := paysim.Effect{Key: "e-3", OrderID: "o-1", CustomerID: "c", Amount: 101, Currency: "RUB", Status: paysim.Succeeded}
			f.provider.EffectsByKey["e-3"] = []paysim.Effect{effect}
			f.provider.RequestsByKey["e-3"] = 1
			f.told["e-3"] = []told{{ID: "a-3", Type: "ChargeSucceeded", Order: "o-1", Customer: "c", Source: "e-3", Amount: 101, Currency: "RUB", Version: 1}}
			if tc.of != "" {
				f.duplicates["e-4"] = tc.of
			}
			if found := r.judge(f, false); (found.total() == 0) != tc.sound {
				t.Errorf("found %s: %v", found.String(), found.examples)
			}
		})
	}
}

func TestARunThatInjectedNothingIsRed(t *testing.T) {
	t.Parallel()
	r, _ := world()
	r.broker = &broker{}
	r.o.Duration = time.Hour
	if len(r.didNothing()) == 0 {
		t.Error("a run without any fault proves nothing and is green")
	}
}

func TestARunWhoseProcessesOrTablesGrowIsRed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		usage func(i int) usage
		size  func(i int) float64
		flat  bool
	}{
		"flat":          {func(i int) usage { return usage{50 + float64(i%3), 40, 100} }, func(int) float64 { return 300 }, true},
		"memory grows":  {func(i int) usage { return usage{50 + float64(i), 40, 100} }, func(int) float64 { return 300 }, false},
		"files grow":    {func(i int) usage { return usage{50, 40 + i, 100} }, func(int) float64 { return 300 }, false},
		"a table grows": {func(int) usage { return usage{50, 40, 100} }, func(i int) float64 { return 300 + 10*float64(i) }, false},
	} {
		r, _ := world()
		r.o.Duration = time.Hour
		for i := range 60 {
			r.book.took(tc.usage(i))
			r.book.sizes = append(r.book.sizes, sizes{perRow: map[string]float64{"charge": tc.size(i)}})
		}
		if reasons := r.grewTooMuch(); (len(reasons) == 0) != tc.flat {
			t.Errorf("%s: %v", name, reasons)
		}
	}
}
