package harness

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const posterToken = "proof-token-of-the-shop"

// posted is one charge that a client of the API wants, under one key for as long as it takes.
type posted struct {
	key, order string
	amount     int64
	location   string // of the first answer, empty before it
	body       []byte // of the first answer: a repeat gets the same bytes
}

// poster is a client of the API: it repeats a request until it is answered, sometimes after that, and
// sometimes uses a key for something else.
type poster struct {
	rig    *rig
	random *rand.Rand
	client *http.Client

	open     []*posted // without an answer
	answered []*posted
	repeats  int
	refused  int // keys used for something else, and refused
	n        int
}

// tokensFile writes the file that lets the poster in.
func tokensFile() (path string, remove func() error, err error) {
	dir, err := os.MkdirTemp("", "billing-proof-")
	if err != nil {
		return "", nil, fmt.Errorf("make a folder for tokens: %w", err)
	}
	remove = func() error { return os.RemoveAll(dir) }
	hash := sha256.Sum256([]byte(posterToken))
	path = filepath.Join(dir, "tokens.json")
	text := fmt.Sprintf(`{"clients":[{"name":"shop","token_sha256":%q,"scopes":["charges:write","charges:read"]}]}`, hex.EncodeToString(hash[:]))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return "", nil, fmt.Errorf("write tokens: %w", err)
	}
	return path, remove, nil
}

func newPoster(r *rig) *poster {
	return &poster{rig: r, random: rand.New(rand.NewPCG(r.o.Seed, 4)), client: &http.Client{Timeout: 3 * time.Second}}
}

// run posts at a rate until ctx ends.
func (p *poster) run(ctx context.Context, perSecond int) {
	for ctx.Err() == nil {
		sleep(ctx, time.Second/time.Duration(perSecond))
		switch roll := p.random.IntN(100); {
		case roll < 65 || len(p.answered) == 0:
			p.n++
			o := &posted{key: fmt.Sprintf("key-%d", p.n), order: fmt.Sprintf("posted-%d", p.n), amount: int64(100 + p.random.IntN(100_000))}
			p.open = append(p.open, o)
			p.try(ctx, o)
		case roll < 85:
			p.try(ctx, p.answered[p.random.IntN(len(p.answered))])
		case roll < 95:
			p.misuse(ctx, p.answered[p.random.IntN(len(p.answered))])
		default:
			p.rest(ctx)
		}
	}
}

// rest tries again what has no answer yet.
func (p *poster) rest(ctx context.Context) {
	for _, o := range append([]*posted(nil), p.open...) {
		p.try(ctx, o)
	}
}

// finish returns when every request has its answer.
func (p *poster) finish(ctx context.Context) {
	for end := time.Now().Add(30 * time.Second); len(p.open) > 0 && time.Now().Before(end); {
		p.rest(ctx)
		sleep(ctx, 100*time.Millisecond)
	}
	if len(p.open) > 0 {
		p.rig.book.violate("%d POSTs were not answered after everything had healed", len(p.open))
	}
}

// repeatAll is what clients do after a loss: the same requests under the same keys.
func (p *poster) repeatAll(ctx context.Context) {
	p.open, p.answered = append(p.open, p.answered...), nil
	p.finish(ctx)
}

// try sends the request and keeps its answer. Anything but an answer of the contract is tried again later.
func (p *poster) try(ctx context.Context, o *posted) {
	status, header, body := p.post(ctx, o.key, o.order, o.amount)
	switch {
	case status == http.StatusAccepted && o.location == "":
		o.location, o.body = header.Get("Location"), body
	case status == http.StatusAccepted && header.Get("Location") != o.location:
		p.rig.book.violate("key %s is charge %s and charge %s", o.key, o.location, header.Get("Location"))
	case status == http.StatusAccepted && !p.rig.restored.Load() && !bytes.Equal(body, o.body):
		p.rig.book.violate("the repeat of key %s has other bytes", o.key)
	case status == http.StatusAccepted:
		p.repeats++
	case status == http.StatusConflict && strings.Contains(string(body), "IDEMPOTENCY_KEY_IN_PROGRESS"), status == 0, status >= 500, status == http.StatusTooManyRequests:
		return
	default:
		p.rig.book.violate("POST with key %s was answered %d: %s", o.key, status, body)
	}
	for i := range p.open {
		if p.open[i] == o {
			p.open = append(p.open[:i], p.open[i+1:]...)
			p.answered = append(p.answered, o)
			return
		}
	}
}

// misuse uses a key for another amount, or the order under another key: both are refused.
func (p *poster) misuse(ctx context.Context, o *posted) {
	status, want := 0, "IDEMPOTENCY_KEY_REUSED"
	var body []byte
	if p.random.IntN(2) == 0 {
		status, _, body = p.post(ctx, o.key, o.order, o.amount+1)
	} else if n, err := p.rig.count(ctx, "SELECT count(*) FROM charge WHERE order_id = $1 AND status = 'succeeded'", o.order); err == nil && n == 1 {
		want = "ORDER_ALREADY_CHARGED" // for good: a declined one may be ordered again
		status, _, body = p.post(ctx, o.key+"-again", o.order, o.amount)
	}
	switch {
	case status == http.StatusConflict && strings.Contains(string(body), want):
		p.refused++
	case status == http.StatusAccepted:
		p.rig.book.violate("order %s was accepted again under a misused key", o.order)
	}
}

func (p *poster) post(ctx context.Context, key, order string, amount int64) (int, http.Header, []byte) {
	addr := p.rig.apiAddr(p.random)
	if addr == "" {
		return 0, nil, nil
	}
	text := fmt.Sprintf(`{"order_id":%q,"customer_id":%q,"amount":%d,"currency":"RUB"}`, order, "customer-of-"+order, amount)
	request, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodPost, "http://"+addr+"/v1/charges", strings.NewReader(text))
	if err != nil {
		return 0, nil, nil
	}
	request.GetBody = nil // a repeat is the poster's own decision
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+posterToken)
	request.Header.Set("Idempotency-Key", key)
	answer, err := p.client.Do(request)
	if err != nil {
		return 0, nil, nil
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, nil, nil
	}
	return answer.StatusCode, answer.Header, body
}

// apiAddr is where one of the processes listens for clients; it may be dead or asleep.
func (r *rig) apiAddr(random *rand.Rand) string {
	var addrs []string
	for _, p := range r.pods {
		if addr, ok := p.api.Load().(string); ok && addr != "" {
			addrs = append(addrs, addr)
		}
	}
	if len(addrs) == 0 {
		return ""
	}
	return addrs[random.IntN(len(addrs))]
}

// judgePosts asks of every POST that was answered whether it is a charge, and exactly that one.
func (r *rig) judgePosts(f *facts, out *findings) {
	if r.poster == nil {
		return
	}
	for _, o := range r.poster.answered {
		id := strings.TrimPrefix(o.location, "/v1/charges/")
		if c, ok := f.charges[id]; !ok || c.order != o.order || c.amount != o.amount {
			out.add("lost", "the POST with key %s for order %s was answered with charge %s, which is %+v", o.key, o.order, id, c)
		}
	}
}
