package paysim_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"billing/internal/paysim"
)

func TestFaultsAreSeenByTheClient(t *testing.T) {
	t.Parallel()
	const answer = paysim.Answer
	for name, tc := range map[string]struct {
		fault   paysim.Fault
		status  int
		body    string // a part of it
		header  string // "Name: value"
		err     error
		effects int
	}{
		"500 before":        {fault: paysim.Fault{Kind: answer, Status: 500}, status: 500},
		"502 after":         {fault: paysim.Fault{Kind: answer, Status: 502, Phase: paysim.After}, status: 502, effects: 1},
		"503 with seconds":  {fault: paysim.Fault{Kind: answer, Status: 503, RetryAfter: "7"}, status: 503, header: "Retry-After: 7"},
		"429 negative":      {fault: paysim.Fault{Kind: answer, Status: 429, RetryAfter: "-1"}, status: 429, header: "Retry-After: -1"},
		"429 with date":     {fault: paysim.Fault{Kind: answer, Status: 429, RetryAfter: "@90s"}, status: 429, header: "Retry-After: Thu, 01 Jan 2026 00:01:30 GMT"},
		"429 with nonsense": {fault: paysim.Fault{Kind: answer, Status: 429, RetryAfter: "@soon"}, status: 429, header: "Retry-After: @soon"},
		"drop before":       {fault: paysim.Fault{Kind: paysim.Drop, Phase: paysim.Before}, err: syscall.ECONNRESET},
		"drop after":        {fault: paysim.Fault{Kind: paysim.Drop, Phase: paysim.After}, err: syscall.ECONNRESET, effects: 1},
		"truncate":          {fault: paysim.Fault{Kind: paysim.Truncate}, err: io.ErrUnexpectedEOF, effects: 1},
		"truncate whole":    {fault: paysim.Fault{Kind: paysim.Truncate, Size: 1 << 20}, body: `"currency":"RUB"}`, err: io.ErrUnexpectedEOF, effects: 1},
		"decline":           {fault: paysim.Fault{Outcome: paysim.Declined}, status: 402, body: `"status":"declined","code":"card_declined"`, effects: 1},
		"in progress":       {fault: paysim.Conflict("in_progress"), status: 409, body: `{"code":"in_progress"}`},
		"already processed": {fault: paysim.Conflict("already_processed"), status: 409, body: `{"code":"already_processed"}`},
		"409 without code":  {fault: paysim.Conflict(""), status: 409, body: `{}`},
		"redirect":          {fault: paysim.Redirect("/charges"), status: 307, header: "Location: /charges"},
		"401":               {fault: paysim.Fault{Kind: answer, Status: 401}, status: 401},
		"403":               {fault: paysim.Fault{Kind: answer, Status: 403, Code: "forbidden"}, status: 403, body: `{"code":"forbidden"}`},
		"raw": {
			fault:  paysim.Fault{Kind: answer, Status: 299, Body: "<html>", Header: map[string]string{"Content-Type": "text/html"}},
			status: 299, body: "<html>", header: "Content-Type: text/html",
		},
		"drip":            {fault: paysim.Fault{Kind: paysim.Drip, Interval: time.Microsecond}, status: 201, body: `"succeeded"`, effects: 1},
		"drip header":     {fault: paysim.Fault{Kind: paysim.DripHeader, Interval: time.Microsecond}, status: 201, body: `"succeeded"`, effects: 1},
		"hang with limit": {fault: paysim.Fault{Kind: paysim.Hang, Limit: time.Millisecond}, status: 201, effects: 1},
		"hang after":      {fault: paysim.Fault{Kind: paysim.Hang, Limit: time.Millisecond, Phase: paysim.After}, status: 201, effects: 1},
		"informational":   {fault: paysim.Fault{Kind: paysim.Informational, Limit: 20 * time.Millisecond, Interval: 9 * time.Millisecond}, status: 201, effects: 1},
		"latency":         {fault: paysim.Fault{Latency: paysim.Exactly(time.Millisecond)}, status: 201, effects: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := start(t, paysim.Options{Script: scripted(tc.fault)})
			r := b.post(t.Context(), "k-1", orderBody("o-1"))
			if !errors.Is(r.err, tc.err) || tc.err == nil && (r.err != nil || r.status != tc.status) {
				t.Fatalf("got %d %s %v, want %d %v", r.status, r.body, r.err, tc.status, tc.err)
			}
			if !strings.Contains(r.body, tc.body) {
				t.Errorf("got body %s, want %s", r.body, tc.body)
			}
			if key, value, _ := strings.Cut(tc.header, ": "); r.header.Get(key) != value {
				t.Errorf("got %s %q, want %q", key, r.header.Get(key), value)
			}
			b.checkEffects(t, tc.effects)
			if got := b.Requests()[0]; got.Script != tc.fault.String() || got.Effect != int64(tc.effects) {
				t.Errorf("got journal %q and effect %d, want %q and %d", got.Script, got.Effect, tc.fault, tc.effects)
			}
			again := b.post(t.Context(), "k-1", orderBody("o-1"))
			if want := tc.effects == 1; (again.header.Get("Idempotent-Replayed") == "true") != want {
				t.Errorf("got replayed %v, want %v", !want, want)
			}
			b.checkEffects(t, 1)
		})
	}
}

func TestLargeAnswersAreLarge(t *testing.T) {
	t.Parallel()
	for _, kind := range []paysim.Kind{paysim.Oversize, paysim.GzipBomb} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			b := start(t, paysim.Options{Script: scripted(paysim.Fault{Kind: kind, Size: 3 << 20})})
			r := b.post(t.Context(), "k-1", orderBody("o-1"))
			r.check(t, http.StatusCreated, `"succeeded"`)
			if len(r.body) != 3<<20 {
				t.Errorf("got %d bytes, want %d", len(r.body), 3<<20)
			}
			b.checkEffects(t, 1)
		})
	}
}

func TestHangEndsByReleaseOrByTheClient(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		phase          paysim.Phase
		release        bool
		status, effect int
	}{
		"before, released":    {paysim.Before, true, 201, 1},
		"before, client left": {paysim.Before, false, 0, 0},
		"after, released":     {paysim.After, true, 201, 1},
		"after, client left":  {paysim.After, false, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := start(t, paysim.Options{Script: scripted(paysim.Fault{Kind: paysim.Hang, Phase: tc.phase})})
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			done := make(chan result)
			go func() { done <- b.post(ctx, "k-1", orderBody("o-1")) }()
			must(t, b.WaitHanging(t.Context(), 1))
			if tc.release {
				b.ReleaseHangs()
			} else {
				leave()
			}
			if r := <-done; r.status != tc.status {
				t.Errorf("got %d %v, want %d", r.status, r.err, tc.status)
			}
			must(t, b.Wait(t.Context(), func(s paysim.Stats) bool { return s.Answered == 1 && s.Hanging == 0 }))
			b.checkEffects(t, tc.effect)
			if got := b.Requests()[0]; got.Status != tc.status || got.Effect != int64(tc.effect) {
				t.Errorf("got status %d and effect %d in the journal, want %d and %d", got.Status, got.Effect, tc.status, tc.effect)
			}
			b.post(t.Context(), "k-1", orderBody("o-1")).check(t, http.StatusCreated)
			b.checkEffects(t, 1)
		})
	}
}

func TestClosedListenerEndsEverythingThatWaits(t *testing.T) {
	t.Parallel()
	for _, f := range []paysim.Fault{
		{Kind: paysim.Hang},
		{Kind: paysim.Drip, Interval: time.Hour},
		{Kind: paysim.DripHeader, Interval: time.Hour},
		{Kind: paysim.Informational, Interval: time.Hour},
		{Latency: paysim.Exactly(time.Hour)},
	} {
		t.Run(f.String(), func(t *testing.T) {
			t.Parallel()
			b := start(t, paysim.Options{Script: scripted(f)})
			done := make(chan result)
			go func() { done <- b.post(t.Context(), "k-1", orderBody("o-1")) }()
			must(t, b.WaitRequests(t.Context(), 1))
			must(t, b.listener.Close())
			if r := <-done; r.err == nil {
				t.Errorf("got %d, want an error", r.status)
			}
			if st := b.Stats(); st.Answered != st.Received || st.Hanging != 0 {
				t.Errorf("got %+v, want nothing in flight", st)
			}
		})
	}
}

func TestReusedConnectionIsResetUnderTheNextRequest(t *testing.T) {
	t.Parallel()
	b := start(t, paysim.Options{Script: scripted(paysim.Fault{Kind: paysim.ResetOnReuse})})
	b.post(t.Context(), "k-1", orderBody("o-1")).check(t, http.StatusCreated)
	// Without a key in the header the transport does not repeat the request by itself.
	if r := b.post(t.Context(), "", orderBody("o-2")); r.err == nil {
		t.Fatalf("got %d on a connection that was reset", r.status)
	}
	b.post(t.Context(), "k-2", orderBody("o-2")).check(t, http.StatusCreated)
	if got := len(b.Requests()); got != 2 {
		t.Errorf("got %d requests, want the reset one not to arrive", got)
	}
}

func TestScriptedAnswerCanBeStoredUnderTheKey(t *testing.T) {
	t.Parallel()
	for _, phase := range []paysim.Phase{paysim.Before, paysim.After} {
		t.Run(string(phase), func(t *testing.T) {
			t.Parallel()
			b := start(t, paysim.Options{Script: scripted(paysim.Fault{Kind: paysim.Answer, Status: 500, Phase: phase, Store: true})})
			effects := map[paysim.Phase]int{paysim.Before: 0, paysim.After: 1}[phase]
			for attempt := range 3 {
				r := b.post(t.Context(), "k-1", orderBody("o-1"))
				r.check(t, http.StatusInternalServerError)
				if replayed := r.header.Get("Idempotent-Replayed") == "true"; replayed != (attempt > 0) {
					t.Errorf("attempt %d: got replayed %v", attempt+1, replayed)
				}
			}
			b.post(t.Context(), "k-1", orderBody("o-2")).check(t, http.StatusConflict, "key_reused")
			b.checkEffects(t, effects)
			must(t, b.Advance(24*time.Hour))
			b.post(t.Context(), "k-1", orderBody("o-1")).check(t, http.StatusCreated)
			b.checkEffects(t, effects+1)
		})
	}
}

func TestOutcomeThatIsNotStoredIsDecidedAgain(t *testing.T) {
	t.Parallel()
	b := start(t, paysim.Options{Script: scripted(paysim.Fault{Outcome: paysim.Declined, NotStored: true})})
	b.post(t.Context(), "k-1", orderBody("o-1")).check(t, http.StatusPaymentRequired)
	b.post(t.Context(), "k-1", orderBody("o-1")).check(t, http.StatusCreated)
	b.lookup(t.Context(), "k-1").check(t, http.StatusOK, `"declined"`)
	if a := b.Journal().Audit(); len(a.DoubleCharged()) != 0 || len(a.Charged()) != 1 {
		t.Errorf("got charged %v, twice %v", a.Charged(), a.DoubleCharged())
	}
}

func TestPendingChargeBecomesFinal(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		hold  paysim.Hold
		steps func(*testing.T, *bench)
		final string
	}{
		"by look-ups":     {paysim.Hold{Lookups: 1}, func(*testing.T, *bench) {}, `"status":"succeeded"`},
		"by third":        {paysim.Hold{Lookups: 3, Final: paysim.Declined}, lookTwice, `"status":"declined","code":"card_declined"`},
		"by time":         {paysim.Hold{After: time.Hour}, func(t *testing.T, b *bench) { t.Helper(); lookTwice(t, b); must(t, b.Advance(time.Hour)) }, `"status":"succeeded"`},
		"not by any time": {paysim.Hold{Final: paysim.Declined}, func(t *testing.T, b *bench) { t.Helper(); lookTwice(t, b); must(t, b.Advance(1e6*time.Hour)) }, `"status":"pending"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := start(t, paysim.Options{
				KeyWindow: -1,
				Script:    paysim.Script{Rules: []paysim.Rule{{Fault: paysim.Fault{Outcome: paysim.Pending, Hold: tc.hold}}}},
			})
			first := b.post(t.Context(), "k-1", orderBody("o-1"))
			first.check(t, http.StatusAccepted, `"status":"pending"`)
			b.checkEffects(t, 0)
			tc.steps(t, b)
			b.lookup(t.Context(), "k-1").check(t, http.StatusOK, tc.final, `"idempotency_key":"k-1"`)
			again := b.post(t.Context(), "k-1", orderBody("o-1"))
			again.check(t, http.StatusAccepted, first.body)
			if final := !strings.Contains(tc.final, "pending"); final {
				b.checkEffects(t, 1)
				b.do(t.Context(), http.MethodGet, "/charges", "", "").check(t, http.StatusOK, tc.final)
			} else {
				b.checkEffects(t, 0)
			}
		})
	}
}

func TestChargesThatAreDueTogetherBecomeFinalInOrder(t *testing.T) {
	t.Parallel()
	b := start(t, paysim.Options{Script: paysim.Script{PendingShare: 1, Hold: paysim.Hold{After: time.Hour}}})
	for i := range 20 {
		b.post(t.Context(), fmt.Sprintf("k-%02d", i), orderBody("o")).check(t, http.StatusAccepted)
	}
	must(t, b.Advance(time.Hour))
	b.checkEffects(t, 20)
	for i, e := range b.Effects() {
		if want := fmt.Sprintf("k-%02d", i); e.Key != want || e.Seq != int64(i+1) {
			t.Errorf("got effect %d of %s, want %d of %s", e.Seq, e.Key, i+1, want)
		}
	}
}

func lookTwice(t *testing.T, b *bench) {
	t.Helper()
	for range 2 {
		b.lookup(t.Context(), "k-1").check(t, http.StatusOK, `"status":"pending"`)
	}
}

func TestLookupsAndListsHaveFaultsOfTheirOwn(t *testing.T) {
	t.Parallel()
	answer := func(status int, code string) paysim.Fault {
		return paysim.Fault{Kind: paysim.Answer, Status: status, Code: code}
	}
	b := start(t, paysim.Options{Script: paysim.Script{Rules: []paysim.Rule{
		{Match: paysim.Match{On: paysim.Lookups, Attempt: 1}, Fault: answer(404, "not_found")},
		{Match: paysim.Match{On: paysim.Lookups, Attempt: 2, OrderID: "o-1"}, Fault: answer(404, "")},
		{Match: paysim.Match{On: paysim.Lookups, Attempt: 3, Key: "k-1"}, Fault: paysim.Fault{
			Kind: paysim.Answer, Status: 500, Store: true, // which has no meaning here
		}},
		{Match: paysim.Match{On: paysim.Lookups, Attempt: 4, Amount: 1500}, Fault: paysim.Fault{Kind: paysim.Drop}},
		{Match: paysim.Match{On: paysim.Lists}, Fault: paysim.Fault{Kind: paysim.Truncate}},
	}}})
	// On a kept connection the transport would repeat the look-up that is dropped.
	b.client.Transport = &http.Transport{DisableKeepAlives: true}
	b.post(t.Context(), "k-1", orderBody("o-1")).check(t, http.StatusCreated)
	b.lookup(t.Context(), "k-1").check(t, http.StatusNotFound, `{"code":"not_found"}`)
	b.lookup(t.Context(), "k-1").check(t, http.StatusNotFound, `{}`)
	b.lookup(t.Context(), "k-1").check(t, http.StatusInternalServerError)
	if r := b.lookup(t.Context(), "k-1"); r.err == nil {
		t.Errorf("got %d, want a reset", r.status)
	}
	b.lookup(t.Context(), "k-1").check(t, http.StatusOK, `"succeeded"`)
	if r := b.do(t.Context(), http.MethodGet, "/charges", "", ""); !errors.Is(r.err, io.ErrUnexpectedEOF) {
		t.Errorf("got %d %v, want a cut list", r.status, r.err)
	}
	b.ClearRules()
	must(t, b.AddRules(paysim.WrongURL()))
	for _, r := range []result{b.post(t.Context(), "k-1", orderBody("o-1")), b.lookup(t.Context(), "k-1")} {
		r.check(t, http.StatusNotFound, "404 page not found")
	}
}
