// Command api measures POST /v1/charges on the real binary (role api) and a PostgreSQL that syncs: first the most that it
// takes from clients that wait for each answer, then how long answers take at half of that rate. In the second part requests
// start by the clock, whether others were answered or not, and each is timed from when it was due: a server that stalls cannot
// hide it by holding its clients up.
//
//	SECONDS=20 CLIENTS=32 go run ./internal/proof/bench/api
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"billing/internal/proof/bench"
	"billing/internal/testkit"
	"billing/internal/worker"
)

const token = "bench-secret"

func main() {
	os.Exit(bench.Main("api", func(ctx context.Context) error {
		return measure(ctx, time.Duration(bench.Number("SECONDS", 20))*time.Second, bench.Number("CLIENTS", 32))
	}))
}

func measure(ctx context.Context, stretch time.Duration, clients int) (err error) {
	server, err := testkit.StartPostgres(ctx, testkit.PostgresOptions{Durable: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close(), testkit.Close()) }()
	if err := server.CreateDatabase(ctx, "api"); err != nil {
		return err
	}
	process, address, err := serve(ctx, server.URL("api"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, process.Signal(syscall.SIGTERM), process.Kill()) }()
	p := newPoster("http://"+address+"/v1/charges", clients)
	defer p.client.CloseIdleConnections()
	if _, err := p.closed(ctx, time.Second); err != nil { // warm
		return err
	}
	most, err := p.closed(ctx, stretch/2)
	if err != nil {
		return err
	}
	fmt.Printf("%d clients that wait for their answers: %.0f POSTs/s\n", clients, most)
	took, err := p.open(ctx, most/2, stretch)
	if err != nil {
		return err
	}
	slices.Sort(took)
	at := func(share float64) time.Duration {
		return took[int(share*float64(len(took)-1))].Round(10 * time.Microsecond)
	}
	fmt.Printf("half of it, %.0f/s for %s: p50 %s, p99 %s, p99.9 %s, longest %s\n", most/2, stretch, at(0.5), at(0.99), at(0.999), at(1))
	return nil
}

// serve runs the binary with a client that may post.
func serve(ctx context.Context, database string) (*testkit.Process, string, error) {
	dir, err := os.MkdirTemp("", "billing-bench-")
	if err != nil {
		return nil, "", fmt.Errorf("make a folder for tokens: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // the service has read the file by then, and keeps what it read
	hash := sha256.Sum256([]byte(token))
	tokens := filepath.Join(dir, "tokens.json")
	text := fmt.Sprintf(`{"clients":[{"name":"bench","token_sha256":%q,"scopes":["charges:write"]}]}`, hex.EncodeToString(hash[:]))
	if err := os.WriteFile(tokens, []byte(text), 0o600); err != nil {
		return nil, "", fmt.Errorf("write tokens: %w", err)
	}
	binary, err := testkit.Build(ctx, "./cmd/billing")
	if err != nil {
		return nil, "", err
	}
	process, err := testkit.StartProcess(testkit.ProcessOptions{Path: binary, Args: []string{"serve"}, Env: []string{
		"BILLING_ROLES=api", "BILLING_DATABASE_URL=" + database, "BILLING_API_TOKENS_FILE=" + tokens, "BILLING_API_RATE=0",
		"BILLING_HTTP_ADDR=127.0.0.1:0", "BILLING_OPS_ADDR=127.0.0.1:0",
	}})
	if err != nil {
		return nil, "", err
	}
	limit, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	address, err := process.WaitListening(limit, "api")
	if err != nil {
		err = errors.Join(err, process.Kill())
	}
	return process, address, err
}

// poster sends new orders.
type poster struct {
	client  *http.Client
	url     string
	clients int
	n       atomic.Int64
}

func newPoster(url string, clients int) *poster {
	// At half of the rate a stall may leave many more requests open than there were clients.
	transport := &http.Transport{MaxIdleConnsPerHost: 8 * clients, MaxConnsPerHost: 8 * clients}
	return &poster{client: &http.Client{Transport: transport, Timeout: 30 * time.Second}, url: url, clients: clients}
}

func (p *poster) post(ctx context.Context) error {
	n := p.n.Add(1)
	body := fmt.Sprintf(`{"order_id":"order-%09d","customer_id":"customer-%09d","amount":150000,"currency":"RUB"}`, n, n%100_000)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, strings.NewReader(body))
	if err != nil {
		return fmt.Errorf("make a request: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", fmt.Sprintf("key-%09d", n))
	answer, err := p.client.Do(request)
	if err != nil {
		return fmt.Errorf("post: %w", err)
	}
	text, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if answer.StatusCode != http.StatusAccepted {
		return fmt.Errorf("order %d was answered with %d: %s", n, answer.StatusCode, text)
	}
	return nil
}

// failures keeps the first error of many goroutines.
type failures struct {
	once sync.Once
	err  error
}

func (f *failures) note(err error) { f.once.Do(func() { f.err = err }) }

// closed lets each client post one order after the other and returns the rate.
func (p *poster) closed(ctx context.Context, stretch time.Duration) (float64, error) {
	var done atomic.Int64
	var all sync.WaitGroup
	var failed failures
	begun := time.Now()
	for range p.clients {
		all.Go(func() {
			for ctx.Err() == nil && time.Since(begun) < stretch {
				if err := p.post(ctx); err != nil {
					failed.note(err)
					return
				}
				done.Add(1)
			}
		})
	}
	all.Wait()
	return float64(done.Load()) / time.Since(begun).Seconds(), errors.Join(failed.err, ctx.Err())
}

// open starts requests at a rate and returns how long each took since it was due.
func (p *poster) open(ctx context.Context, rate float64, stretch time.Duration) ([]time.Duration, error) {
	took := make([]time.Duration, int(rate*stretch.Seconds()))
	var all sync.WaitGroup
	var failed failures
	begun := time.Now()
	for i := range took {
		due := begun.Add(time.Duration(float64(i) / rate * float64(time.Second)))
		if !(worker.Clock{}).Sleep(ctx, time.Until(due)) {
			break
		}
		all.Go(func() {
			if err := p.post(ctx); err != nil {
				failed.note(err)
			}
			took[i] = time.Since(due)
		})
	}
	all.Wait()
	return took, errors.Join(failed.err, ctx.Err())
}
