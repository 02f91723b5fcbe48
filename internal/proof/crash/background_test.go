package crash_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gofrs/uuid/v5"

	"billing/internal/paysim"
)

// metrics is the text of the operations port.
func metrics(t *testing.T, r *rig, addr string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(r.patient(t), http.MethodGet, "http://"+addr+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Nobody has to run a command: what breaks shows, and what is over goes, with the rights of billing_app.
func TestMaintenanceAuditsAndTidiesUp(t *testing.T) {
	t.Parallel()
	r := newRig(t, paysim.Script{}, "BILLING_ROLES=maintenance", "BILLING_RETENTION_DEAD_LETTERS=24h")
	r.db.Exec(t, "INSERT INTO processed_event (event_id, consumer_group, fingerprint, processed_at) VALUES ($1, 'g', 'x', now() - interval '1 hour')", uuid.Must(uuid.NewV7()))
	for _, status := range []string{"open", "replayed"} {
		r.db.Exec(t, `INSERT INTO dead_letter (consumer_group, topic, partition, "offset", message_time, reason, detail, status, resolved_at, published_at)
			VALUES ('g', $1, 0, 0, now(), 'invalid_json', 'x', $1, CASE WHEN $1 <> 'open' THEN now() - interval '2 days' END, now() - interval '2 days')`, status)
	}
	service := r.serve(t)
	addr, err := service.WaitListening(r.patient(t), "ops")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`billing_invariant_violations{rule="inbox"} 1`, `billing_invariant_violations{rule="lease"} 0`, `billing_purged_rows_total{kind="dead_letters"} 1`,
	} {
		r.await(t, line, func() bool { return strings.Contains(metrics(t, r, addr), line) })
	}
	r.await(t, "both jobs succeeded", func() bool {
		text := metrics(t, r, addr)
		return !strings.Contains(text, `timestamp_seconds{job="audit"} 0`) && !strings.Contains(text, `timestamp_seconds{job="retention"} 0`)
	})
	if n := r.db.Count(t, "SELECT count(*) FROM dead_letter WHERE status = 'open'"); n != 1 {
		t.Errorf("%d open letters are left", n)
	}
	stop(t, service)
}
