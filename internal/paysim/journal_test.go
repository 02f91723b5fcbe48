package paysim_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"billing/internal/paysim"
)

func TestServerContinuesOnItsJournal(t *testing.T) {
	t.Parallel()
	path := journalPath(t)
	script := paysim.Script{Rules: []paysim.Rule{
		{Match: paysim.Match{Key: "declined"}, Fault: paysim.Fault{Outcome: paysim.Declined}},
		{Match: paysim.Match{Key: "pending"}, Fault: paysim.Fault{Outcome: paysim.Pending, Hold: paysim.Hold{After: 30 * time.Hour}}},
		{Match: paysim.Match{Key: "was-pending"}, Fault: paysim.Fault{Outcome: paysim.Pending, Hold: paysim.Hold{Lookups: 1}}},
		{Match: paysim.Match{Key: "stored"}, Fault: paysim.Fault{Kind: paysim.Answer, Status: 500, Store: true}},
		{Match: paysim.Match{Key: "open", Attempt: 1}, Fault: paysim.Fault{NotStored: true}},
		{Match: paysim.Match{Key: "lost", Attempt: 1}, Fault: paysim.Fault{Kind: paysim.Drop, Phase: paysim.After}},
		{Match: paysim.Match{Attempt: 3}, Fault: paysim.Fault{Kind: paysim.Answer, Status: 503}},
	}}
	options := paysim.Options{Journal: path, Fsync: true, Script: script}

	// The first server is never closed, as if it had been killed.
	old := start(t, options)
	old.post(t.Context(), "forgotten", orderBody("o-forgotten")).check(t, http.StatusCreated)
	must(t, old.Advance(20*time.Hour))
	must(t, old.ForgetKeys())
	keys := []string{"succeeded", "declined", "pending", "was-pending", "stored", "open"}
	before := map[string]result{}
	for _, key := range keys {
		before[key] = old.post(t.Context(), key, orderBody("o-"+key))
	}
	if r := old.post(t.Context(), "lost", orderBody("o-lost")); r.err == nil {
		t.Fatal("the answer was not lost")
	}
	old.lookup(t.Context(), "was-pending").check(t, http.StatusOK, `"succeeded"`)
	tear(t, path)

	b := start(t, options)
	if got, want := b.Effects(), old.Effects(); !slices.Equal(got, want) {
		t.Fatalf("got effects %+v, want %+v", got, want)
	}
	if got, want := b.Requests(), old.Requests(); !slices.Equal(got, want) {
		t.Fatalf("got requests %+v, want %+v", got, want)
	}
	for _, key := range keys[:5] {
		r := b.post(t.Context(), key, orderBody("o-"+key))
		r.check(t, before[key].status, before[key].body)
		if r.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%s: not replayed", key)
		}
		want := http.StatusConflict
		if key == "succeeded" { // the last rule finds it, if attempts are counted on
			want = http.StatusServiceUnavailable
		}
		b.post(t.Context(), key, orderBody("other")).check(t, want)
	}
	b.post(t.Context(), "lost", orderBody("o-lost")).check(t, http.StatusCreated)
	effects := len(b.Effects())
	for _, key := range []string{"open", "forgotten"} {
		b.post(t.Context(), key, orderBody("o-"+key)).check(t, http.StatusCreated)
		effects++
		b.checkEffects(t, effects)
	}
	must(t, b.Advance(30*time.Hour)) // the pending one is due, and every key too old
	b.checkEffects(t, effects+1)
	if got := b.Stats().Now; !got.Equal(time.Date(2026, 1, 3, 2, 0, 0, 0, time.UTC)) {
		t.Errorf("got the clock at %v, want 50 hours after the start", got)
	}
	j, err := paysim.ReadJournal(path)
	must(t, err)
	if !slices.Equal(j.Effects, b.Effects()) || len(j.Requests) != len(b.Requests()) {
		t.Errorf("got %d effects and %d requests in the file, want those of the server", len(j.Effects), len(j.Requests))
	}
}

// tear leaves half a line at the end, as a process does that is killed while writing.
func tear(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	must(t, err)
	_, err = f.WriteString(`{"effect":{"seq":99,"ti`)
	must(t, err)
	must(t, f.Close())
}

func TestJournalHasOneLineForEachRequestAndEffect(t *testing.T) {
	t.Parallel()
	path := journalPath(t)
	b := start(t, paysim.Options{Journal: path})
	body := orderBody("o-1")
	b.post(t.Context(), "k-1", body).check(t, http.StatusCreated)
	b.post(t.Context(), "k-1", body).check(t, http.StatusCreated)
	b.post(t.Context(), "k-1", orderBody("o-2")).check(t, http.StatusConflict)
	b.lookup(t.Context(), "k-1").check(t, http.StatusOK)

	text, err := os.ReadFile(path)
	must(t, err)
	kinds := make([]string, 0, 5)
	for _, l := range lines(text) {
		var members map[string]json.RawMessage
		must(t, json.Unmarshal(l, &members))
		for name := range members {
			kinds = append(kinds, name)
		}
	}
	if want := []string{"effect", "request", "request", "request", "request"}; !slices.Equal(kinds, want) {
		t.Errorf("got lines %v, want %v: the effect before the answer that tells it", kinds, want)
	}
	j, err := paysim.ReadJournal(path)
	must(t, err)
	hash := sha256.Sum256([]byte(body))
	first, second, third := j.Requests[0], j.Requests[1], j.Requests[2]
	if first.Effect != 1 || first.Replayed || first.Status != 201 || first.BodySHA256 != hex.EncodeToString(hash[:]) {
		t.Errorf("got first request %+v", first)
	}
	if second.Effect != 0 || !second.Replayed || second.Attempt != 2 || third.Status != 409 || third.OrderID != "o-2" {
		t.Errorf("got second request %+v, third %+v", second, third)
	}
	want := paysim.Effect{
		Seq: 1, Time: first.Time, Key: "k-1", OrderID: "o-1", CustomerID: "c-1", Amount: 1500, Currency: "RUB",
		ChargeID: "ch_00000001", Status: paysim.Succeeded, BodySHA256: first.BodySHA256,
	}
	if j.Effects[0] != want {
		t.Errorf("got effect %+v, want %+v", j.Effects[0], want)
	}
	a := j.Audit()
	if a.RequestsByKey["k-1"] != 3 || len(a.BodiesByKey["k-1"]) != 2 || len(a.EffectsByKey["k-1"]) != 1 || len(a.EffectsByOrder["o-1"]) != 1 {
		t.Errorf("got audit %+v", a)
	}
}

func TestDamagedJournalIsRefused(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"no JSON":     "nonsense\n",
		"gap":         `{"effect":{"seq":2,"key":"k","charge_id":"ch_00000001"}}` + "\n",
		"no id":       `{"effect":{"seq":1,"key":"k","charge_id":"x"}}` + "\n",
		"no id later": `{"accepted":{"charge":{"charge_id":"ch_"}}}` + "\n",
	} {
		path := journalPath(t)
		must(t, os.WriteFile(path, []byte(text), 0o600))
		if s, err := paysim.New(paysim.Options{Journal: path}); err == nil {
			t.Errorf("%s: got a server, want an error", name)
			must(t, s.Close())
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, []byte(text)) {
			t.Errorf("%s: the file was changed", name)
		}
	}
	if _, err := paysim.ReadJournal(journalPath(t)); err == nil {
		t.Error("got a journal from a file that does not exist")
	}
}

func TestNothingIsAnsweredThatIsNotInTheJournal(t *testing.T) {
	t.Parallel()
	b := start(t, paysim.Options{Journal: journalPath(t)})
	must(t, b.stop())
	if r := b.post(t.Context(), "k-1", orderBody("o-1")); r.err == nil {
		t.Errorf("got %d %s although the effect could not be written", r.status, r.body)
	}
	b.checkEffects(t, 0)
}

func TestOnlyTheLatestRequestsAreKept(t *testing.T) {
	t.Parallel()
	b := start(t, paysim.Options{KeepRequests: 3})
	for range 10 {
		b.post(t.Context(), "k-1", orderBody("o-1")).check(t, http.StatusCreated)
	}
	got := b.Requests()
	if len(got) != 3 || got[0].Seq != 8 || got[2].Seq != 10 || got[2].Attempt != 10 {
		t.Errorf("got %+v, want requests 8 to 10", got)
	}
}
