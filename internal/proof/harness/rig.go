package harness

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"billing/internal/paysim"
	"billing/internal/proof/mutants"
	"billing/internal/testkit"
)

// Server is what runs share: a PostgreSQL, in which each has a database of its own, and an Apache Kafka, in
// which each has topics and a proxy of its own. A run on kfake starts its own.
type Server struct {
	postgres *testkit.PostgresServer
	brokers  chan *broker // nil: kfake
	closers  []func() error
}

// StartServer starts them for so many runs at a time. A durable PostgreSQL has fsync on.
func StartServer(ctx context.Context, durable bool, kafka string, runs int) (*Server, error) {
	postgres, err := testkit.StartPostgres(ctx, testkit.PostgresOptions{Durable: durable, MaxConnections: 400, Settings: map[string]string{
		"shared_buffers": "256MB", "max_wal_size": "2GB",
	}})
	if err != nil {
		return nil, err
	}
	s := &Server{postgres: postgres, closers: []func() error{postgres.Close}}
	switch kafka {
	case "kfake":
	case "apache":
		brokers, closeBrokers, err := startApache(ctx, runs)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.closers = append(s.closers, closeBrokers)
		s.brokers = make(chan *broker, runs)
		for _, b := range brokers {
			s.brokers <- b
		}
	default:
		return nil, errors.Join(fmt.Errorf("kafka is %q, want apache or kfake", kafka), s.Close())
	}
	return s, nil
}

// Close stops everything and removes its data.
func (s *Server) Close() error {
	var errs []error
	for _, f := range slices.Backward(s.closers) {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}

// take gives a run its way to Kafka.
func (s *Server) take(ctx context.Context) (*broker, error) {
	if s.brokers == nil {
		return startFake()
	}
	select {
	case b := <-s.brokers:
		taken := *b
		taken.close = func() error { s.brokers <- b; return b.proxy.Resume() }
		return &taken, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Build builds the real binary with crash points, and with mutants if asked to, and returns its path and
// what removes it.
func Build(ctx context.Context, withMutants bool) (path string, remove func(), err error) {
	dir, err := os.MkdirTemp("", "billing-proof-")
	if err != nil {
		return "", nil, fmt.Errorf("make a folder for the binary: %w", err)
	}
	remove = func() { _ = os.RemoveAll(dir) }
	tags := "crashpoints"
	if withMutants {
		tags += ",mutants"
	}
	path = filepath.Join(dir, "billing")
	if out, err := exec.CommandContext(ctx, "go", "build", "-tags", tags, "-o", path, "billing/cmd/billing").CombinedOutput(); err != nil {
		remove()
		return "", nil, fmt.Errorf("build the service: %w\n%s", err, out)
	}
	return path, remove, nil
}

var databases atomic.Int64

// rig is one system under proof.
type rig struct {
	o      Options
	t      timing
	binary string
	server *Server
	broker *broker
	dbName string
	pool   *pgxpool.Pool // of the harness, straight to the server
	sim    *paysim.Server
	listen *paysim.Listener
	admin  *kgo.Client

	pgProxy, payProxy                     *testkit.Proxy
	topic, group, results, letters, retry string
	journal                               *journal
	producer                              *producer
	random                                *rand.Rand
	book                                  *book
	closers                               []func() error
	pods                                  []*pod

	wait     sync.WaitGroup  // scrapers
	ended    <-chan struct{} // closed when the verdict is known
	copied   bool
	tokens   string // the file of the API's clients, empty without the API
	poster   *poster
	restored atomic.Bool  // the database was put back: positions and history are another matter
	looks    atomic.Int64 // at the invariants

	interrupted time.Duration // after which the run was told to end early; 0 when it was not

	mu          sync.Mutex
	seenEffects int
	charged     map[string]int // effects that took money, by order
}

func newRig(ctx context.Context, server *Server, binary string, o Options) (_ *rig, err error) {
	name := fmt.Sprintf("proof_%d", databases.Add(1))
	r := &rig{
		o: o, t: o.timing(), binary: binary, server: server, dbName: name,
		topic: name + ".orders", group: name, results: name + ".results", letters: name + ".letters", retry: name + ".orders." + name + ".retry",
		journal: &journal{}, charged: map[string]int{}, random: rand.New(rand.NewPCG(o.Seed, 1)), book: newBook(o.Out),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	steps := []func(context.Context) error{r.startKafka, r.startDatabase, r.startProvider}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *rig) onClose(f func() error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closers = append(r.closers, f)
}

func (r *rig) close() error {
	var errs []error
	for _, f := range slices.Backward(r.closers) {
		errs = append(errs, f())
	}
	r.closers = nil
	return errors.Join(errs...)
}

func (r *rig) startKafka(ctx context.Context) (err error) {
	if r.broker, err = r.server.take(ctx); err != nil {
		return err
	}
	r.onClose(r.broker.close)
	if r.admin, err = r.broker.client(kgo.RetryTimeout(2 * time.Second)); err != nil {
		return err
	}
	r.onClose(func() error { r.admin.Close(); return nil })
	if err := createTopics(ctx, r.admin, r.topic, r.results, r.letters, r.retry); err != nil {
		return err
	}
	client, err := r.broker.client(kgo.ProducerLinger(2*time.Millisecond), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.MaxBufferedRecords(200_000), kgo.RecordDeliveryTimeout(2*time.Minute))
	if err != nil {
		return err
	}
	r.onClose(func() error { client.Close(); return nil })
	r.producer = &producer{journal: r.journal, client: client, topic: r.topic, random: rand.New(rand.NewPCG(r.o.Seed, 2))}
	return nil
}

// startDatabase makes the database and lets it note what must never happen: a position that moves back, but
// for the start of an assignment, which puts it to the smaller of both offsets.
func (r *rig) startDatabase(ctx context.Context) (err error) {
	if err := r.server.postgres.CreateDatabase(ctx, r.dbName); err != nil {
		return err
	}
	r.onClose(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		return r.server.postgres.DropDatabase(ctx, r.dbName)
	})
	if r.pgProxy, err = testkit.StartProxy(r.server.postgres.Addr()); err != nil {
		return err
	}
	r.onClose(func() error { r.pgProxy.Close(); return nil })
	if r.pool, err = pgxpool.New(ctx, r.server.postgres.URL(r.dbName)); err != nil {
		return fmt.Errorf("connect to the database: %w", err)
	}
	r.onClose(func() error { r.pool.Close(); return nil })
	_, err = r.pool.Exec(ctx, `
		CREATE SCHEMA proof;
		CREATE TABLE proof.moved_back (topic text, partition int, was bigint, became bigint, at timestamptz DEFAULT clock_timestamp());
		CREATE FUNCTION proof.note() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
			BEGIN
				IF current_query() NOT ILIKE '%INSERT INTO consumer_position%' THEN
					INSERT INTO proof.moved_back VALUES (OLD.topic, OLD.partition, OLD.next_offset, NEW.next_offset);
				END IF;
				RETURN NEW;
			END $$;
		CREATE TRIGGER proof_moved_back BEFORE UPDATE ON consumer_position FOR EACH ROW
			WHEN (NEW.next_offset < OLD.next_offset) EXECUTE FUNCTION proof.note();`)
	if err != nil {
		return fmt.Errorf("prepare the database: %w", err)
	}
	r.onClose(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		_, err := r.pool.Exec(ctx, "DROP ROLE "+r.dbName)
		return err
	})
	// The processes run with the rights that they have where they are deployed.
	if _, err = r.pool.Exec(ctx, "CREATE ROLE "+r.dbName+" LOGIN IN ROLE billing_app"); err != nil {
		return fmt.Errorf("make the service's login: %w", err)
	}
	if r.o.Mutant == mutants.OrderNotUnique { // what the login may not do
		if _, err := r.pool.Exec(ctx, "DROP INDEX charge_order_key"); err != nil {
			return fmt.Errorf("make the mutant: %w", err)
		}
	}
	return nil
}

// usual is what the provider does when nothing is wrong with it: a few lost answers, a few declines.
func (r *rig) usual() paysim.Script {
	s := paysim.Script{
		Seed: r.o.Seed, Latency: paysim.Range{Min: time.Millisecond, Max: 30 * time.Millisecond}, DeclineShare: 0.02,
		Rules: []paysim.Rule{{Match: paysim.Match{OrderPrefix: silentPrefix}, Fault: paysim.Fault{Kind: paysim.Drop, Phase: paysim.Before}}},
	}
	if r.o.Idle {
		return s
	}
	s.Shares = []paysim.Share{
		{Of: 0.02, Fault: paysim.Fault{Kind: paysim.Drop, Phase: paysim.After}},
		{Of: 0.01, Fault: paysim.Fault{Kind: paysim.Drop, Phase: paysim.Before}},
		{Of: 0.01, Fault: paysim.Fault{Kind: paysim.Truncate}},
		{Of: 0.01, Fault: paysim.Fault{Kind: paysim.ResetOnReuse}},
	}
	return s
}

func (r *rig) startProvider(ctx context.Context) (err error) {
	r.sim, err = paysim.New(paysim.Options{Now: time.Now, KeyWindow: -1, KeepRequests: 8_000_000, Script: r.usual()})
	if err != nil {
		return fmt.Errorf("start the provider: %w", err)
	}
	if r.listen, err = r.sim.Listen(context.WithoutCancel(ctx), "127.0.0.1:0"); err != nil {
		return fmt.Errorf("start the provider: %w", err)
	}
	r.onClose(r.listen.Close)
	if r.payProxy, err = testkit.StartProxy(r.listen.Addr); err != nil {
		return err
	}
	r.onClose(func() error { r.payProxy.Close(); return nil })
	return nil
}

// env is the environment of one process behind the proxies.
func (r *rig) env(more ...string) []string {
	return slices.Concat([]string{
		"BILLING_DATABASE_URL=" + r.databaseURL(r.pgProxy.Addr()),
		"BILLING_DATABASE_MAX_CONNS=12",
		"BILLING_KAFKA_BROKERS=" + r.broker.proxy.Addr(),
		"BILLING_KAFKA_TOPICS=" + r.topic,
		"BILLING_KAFKA_GROUP=" + r.group,
		"BILLING_KAFKA_RESULTS_TOPIC=" + r.results,
		"BILLING_KAFKA_DEAD_LETTER_TOPIC=" + r.letters,
		"BILLING_PROVIDER_URL=http://" + r.payProxy.Addr(),
		"BILLING_OPS_ADDR=127.0.0.1:0",
	}, r.t.env(), more)
}

func (r *rig) databaseURL(addr string) string {
	u, err := url.Parse(r.server.postgres.URL(r.dbName))
	if err != nil {
		panic(err) // the server made it
	}
	u.Host, u.User = addr, url.User(r.dbName)
	return u.String()
}

// count is the one number that a query returns.
func (r *rig) count(ctx context.Context, sql string, args ...any) (n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := r.pool.QueryRow(ctx, sql, args...).Scan(&n); err != nil {
		return 0, fmt.Errorf("%s: %w", strings.Join(strings.Fields(sql), " "), err)
	}
	return n, nil
}

// verb runs a command of the service, straight on its dependencies.
func (r *rig) verb(ctx context.Context, args ...string) (code int, output string, err error) {
	var out strings.Builder
	process, err := testkit.StartProcess(testkit.ProcessOptions{
		Path: r.binary, Args: args, Output: &out,
		Env: r.env("BILLING_DATABASE_URL="+r.databaseURL(r.server.postgres.Addr()), "BILLING_PROVIDER_URL="+r.listen.URL),
	})
	if err != nil {
		return 0, "", err
	}
	code, err = process.Wait(ctx)
	if err != nil {
		err = errors.Join(err, process.Kill())
	}
	return code, out.String(), err
}
