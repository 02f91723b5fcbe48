package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	kafkain "billing/internal/adapters/in/kafka"
	kafkaout "billing/internal/adapters/out/kafka"
	"billing/internal/core/usecase"
)

// refuse lets a message be refused as the service refuses it, and returns the id of its dead letter.
func (s *shop) refuse(t *testing.T, value string) string {
	t.Helper()
	before := s.db.Count(t, "SELECT coalesce(max(id), 0) FROM dead_letter")
	accept := usecase.Accept{
		Inbox: s.store, Codec: codec{kafkaout.Messages{DeadLetterTopic: "letters"}}, Limits: usecase.Limits{Retention: 168 * time.Hour, Skew: time.Hour},
	}
	decoder := kafkain.Decoder{DefaultCurrency: "RUB", MaxAmountMinor: 1000}
	d := decoder.Decode("orders", 3, usecase.Message{Offset: s.next, Time: time.Now(), Key: []byte("k"), Value: []byte(value)})
	next, counts, err := accept.Chunk(t.Context(), shopSource(), s.next, s.next+1, 0, []usecase.Delivery{d})
	if err != nil || counts.Letters() != 1 {
		t.Fatalf("%+v %v", counts, err)
	}
	s.next = next
	return strconv.Itoa(s.db.Count(t, "SELECT max(id) FROM dead_letter WHERE id > $1", before))
}

// confirmation is an order event; the service of these tests refuses amounts above 1000.
func confirmation(id uuid.UUID, order string, amount int) string {
	return fmt.Sprintf(`{"event_id":%q,"event_type":"OrderConfirmed","occurred_at":"2026-01-02T03:04:05Z","order_id":%q,"customer_id":"c","total_amount":%d}`, id, order, amount)
}

func TestReplayChargesWhatIsAcceptableNow(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	event := newID()
	s.refuse(t, confirmation(event, "o-1", 2000))
	s.refuse(t, confirmation(newID(), "o-1", 2000))
	still := s.refuse(t, "{")
	s.want(t, 0, "invalid_amount", "deadletters", "list")
	s.want(t, 0, "NUMBER", "deadletters", "list", "--group")
	s.want(t, 0, "1 accepted, 0 not", "deadletters", "replay", "--reason", "invalid_amount", "--limit", "1", "--dry-run")
	s.want(t, exitUsage, "nobody answered", "deadletters", "replay")
	if code, _, stderr := s.run(t, "n\n", "deadletters", "replay", "--reason", "invalid_json", "--id", still, "--topic", "orders"); code != exitFailure {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if n := s.db.Count(t, "SELECT count(*) FROM charge"); n != 0 {
		t.Fatalf("%d charges without consent", n)
	}
	var got []usecase.ReplayResult
	out := s.want(t, exitFailure, "", "deadletters", "replay", "--since", "1h", "--yes", "--actor", "ann", "--because", "maximum raised", "--output", "json")
	if err := json.Unmarshal([]byte(out), &got); err != nil || len(got) != 3 || !got[0].Accepted || got[0].Charge.UUID != event || got[1].Accepted || got[2].Accepted {
		t.Fatalf("%v: %s", err, out)
	}
	s.work(t)
	if got := s.status(t, event); got != "succeeded" {
		t.Errorf("the charge is %s", got)
	}
	if n := s.db.Count(t, "SELECT count(*) FROM dead_letter WHERE status = 'replayed' AND resolved_by = 'ann' AND resolved_reason = 'maximum raised'"); n != 1 {
		t.Errorf("%d letters are replayed", n)
	}
	s.want(t, exitFailure, "duplicate: its order has this charge", "deadletters", "replay", "--yes")
	s.want(t, 0, "discarded", "deadletters", "discard", "--because", "looked at", "--yes")
	s.want(t, 0, "nothing to do", "deadletters", "replay", "--yes")
	s.want(t, 0, "replayed", "deadletters", "list", "--status", "any")
	s.want(t, 0, "0 findings in 1 charges", "audit", "--provider", "--grace", "0s")
}

func TestCanaryStopsTheReplay(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.refuse(t, "{")
	s.refuse(t, confirmation(newID(), "o-1", 2000))
	s.want(t, exitFailure, "the other 1 were not tried", "deadletters", "replay", "--canary", "1", "--yes")
	if n := s.db.Count(t, "SELECT count(*) FROM charge"); n != 0 {
		t.Errorf("%d charges", n)
	}
	s.want(t, 0, "1 accepted", "deadletters", "replay", "--canary", "1", "--reason", "invalid_amount", "--yes")
}

func TestPayloadIsShownOnlyWhenAskedAndNeverWithCardNumbers(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	const secret = "Somebody Important"
	id := s.refuse(t, `{"name":"`+secret+`","card":"4111111111111111"`)
	for _, args := range [][]string{{"show", id}, {"show", id, "--output", "json"}, {"list"}, {"list", "--output", "json"}, {"list", "--group"}} {
		if out := s.want(t, 0, "", append([]string{"deadletters"}, args...)...); strings.Contains(out, secret) || strings.Contains(out, "1111") {
			t.Errorf("%v: %s", args, out)
		}
	}
	for _, output := range []string{"table", "json"} {
		if out := s.want(t, 0, secret, "deadletters", "show", id, "--payload", "--output", output); strings.Contains(out, "1111") || !strings.Contains(out, "****************") {
			t.Error(out)
		}
	}
	s.want(t, exitFailure, "masked", "deadletters", "replay", "--id", id, "--yes")
	s.want(t, exitFailure, "no such dead letter", "deadletters", "show", "123456")
	s.want(t, exitUsage, "number", "deadletters", "show", "x")
	s.want(t, exitUsage, "--limit", "deadletters", "list", "--limit", "0")
	s.want(t, exitUsage, "--since", "deadletters", "list", "--since", "yesterday")
	s.want(t, exitUsage, "because", "deadletters", "discard", "--yes")
}

func TestResultsAreRepublished(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	id := s.order(t, "o-1")
	s.order(t, "o-2")
	s.work(t)
	s.want(t, 0, "it waits to be published", "charges", "republish", "--id", id.String(), "--yes")
	messages, err := s.store.ClaimMessages(t.Context(), 10, time.Minute)
	if err != nil || len(messages) != 2 {
		t.Fatalf("%d messages: %v", len(messages), err)
	}
	if _, err := s.store.AckMessages(t.Context(), []usecase.MessageRef{{ID: messages[0].ID, Attempt: 1}, {ID: messages[1].ID, Attempt: 1}}); err != nil {
		t.Fatal(err)
	}
	s.want(t, exitUsage, "nobody answered", "charges", "republish", "--since", "1h")
	s.want(t, exitFailure, "more than 1 charges", "charges", "republish", "--since", "1h", "--limit", "1", "--yes")
	s.want(t, 0, "2 ordered again, 0 not", "charges", "republish", "--since", "1h", "--yes")
	s.want(t, 0, "0 ordered again, 2 not", "charges", "republish", "--since", "1h", "--yes")
	s.want(t, exitUsage, "", "charges", "republish", "--yes")
	again, err := s.store.ClaimMessages(t.Context(), 10, time.Minute)
	if err != nil || len(again) != 2 {
		t.Fatalf("%d messages: %v", len(again), err)
	}
	for i := range again {
		if string(again[i].Key) != string(messages[0].Key) && string(again[i].Key) != string(messages[1].Key) {
			t.Errorf("key %s", again[i].Key)
		}
	}
	s.want(t, 0, "0 findings", "audit", "--grace", "0s")
}

// Every verb explains itself with an example, so that nobody has to guess at night.
func TestEveryVerbHasAnExample(t *testing.T) {
	t.Parallel()
	commands := newRoot(nil).Commands()
	for len(commands) > 0 {
		cmd := commands[0]
		commands = append(commands[1:], cmd.Commands()...)
		if cmd.Example == "" {
			t.Errorf("%s has no example", cmd.CommandPath())
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if code, stdout, _ := billing(t, nil, "completion", shell); code != 0 || !strings.Contains(stdout, "billing") {
			t.Errorf("completion %s: exit code %d", shell, code)
		}
	}
}
