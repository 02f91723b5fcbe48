package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"billing/internal/paysim"
	"billing/internal/testkit"
)

// demo is one run of the whole system.
type demo struct {
	options options
	out     *screen

	dir       string // private folder
	binary    string
	database  string // its URL
	watching  *pgx.Conn
	brokers   []string
	sim       *paysim.Server
	simURL    string
	processes []*process
	planner   *planner
	sent      []*message // the producer's journal
	kills     int
	began     time.Time     // of producing
	settled   time.Duration // from then to the last result
	busiest   int64         // charges settled within a second, at most
	judged    bool          // the table was shown

	mu      sync.Mutex
	endings []func() error // in the order of the starts
}

// atEnd remembers what has to be undone.
func (d *demo) atEnd(undo func() error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.endings = append(d.endings, undo)
}

// close ends everything, the last that was started first, and removes the private folder, but for the logs
// when they are to be kept.
func (d *demo) close(keepLogs bool) error {
	var errs []error
	for _, p := range d.processes {
		errs = append(errs, p.kill())
	}
	for _, undo := range slices.Backward(d.endings) {
		errs = append(errs, undo())
	}
	if d.dir == "" {
		return errors.Join(errs...)
	}
	if !keepLogs || len(d.processes) == 0 { // before the first process there are none
		return errors.Join(append(errs, os.RemoveAll(d.dir))...)
	}
	d.out.printf("Logs and the provider's journal are kept in %s", d.dir)
	return errors.Join(append(errs, os.RemoveAll(d.binary), os.RemoveAll(d.file("build")))...)
}

// file names a file in the private folder.
func (d *demo) file(name string) string { return filepath.Join(d.dir, name) }

// run starts the system, lets it work, and judges it. It returns whether the judgement was good.
func (d *demo) run(ctx context.Context) (bool, error) {
	d.out.printf("%s", d.out.bold(fmt.Sprintf("billing demo: %s orders, seed %d", grouped(d.options.events), d.options.seed)))
	if err := d.start(ctx); err != nil {
		return false, err
	}
	if err := d.work(ctx); err != nil {
		return false, err
	}
	s, err := d.judge(ctx)
	if err != nil {
		return false, err
	}
	if !d.options.stay {
		err = d.stop(ctx)
	}
	s.total = d.out.elapsed()
	s.table(d.out)
	d.judged = true
	if d.options.stay {
		err = d.stay(ctx)
	}
	return s.ok(), err
}

// start brings everything up, side by side where it can.
func (d *demo) start(ctx context.Context) error {
	var err error
	if d.dir, err = os.MkdirTemp("", "billing-demo-"); err != nil {
		return fmt.Errorf("make private folder: %w", err)
	}
	group, each := errgroup.WithContext(ctx)
	group.Go(func() error { return d.build(each) })
	group.Go(func() error { return d.startPostgres(each) })
	group.Go(func() error { return d.startKafka(each) })
	group.Go(d.startProvider)
	if err := group.Wait(); err != nil {
		return err
	}
	if err := d.migrate(ctx); err != nil {
		return err
	}
	for _, name := range []string{"billing-1", "billing-2"} {
		p := &process{name: name, log: d.file(name + ".log")}
		d.processes = append(d.processes, p)
		if err := p.start(d.binary, d.env("BILLING_KAFKA_CLIENT_ID="+name)); err != nil {
			return err
		}
	}
	for _, p := range d.processes {
		if err := p.awaitReady(ctx); err != nil {
			return err
		}
		d.out.step("%s serves, process %d", p.name, p.running.Pid())
	}
	return d.awaitGroup(ctx)
}

func (d *demo) startPostgres(ctx context.Context) error {
	begun := time.Now()
	server, err := testkit.StartPostgres(ctx, testkit.PostgresOptions{Durable: true})
	if err != nil {
		return err
	}
	// Its data is thrown away: a clean stop would only cost time.
	d.atEnd(server.Close)
	d.atEnd(server.StopImmediate)
	admin, err := pgx.Connect(ctx, server.URL("postgres"))
	if err != nil {
		return fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	defer func() { _ = admin.Close(ctx) }()
	if _, err := admin.Exec(ctx, "CREATE DATABASE billing"); err != nil {
		return fmt.Errorf("create database: %w", err)
	}
	d.database = server.URL("billing")
	if d.watching, err = pgx.Connect(ctx, d.database); err != nil {
		return fmt.Errorf("connect to database: %w", err)
	}
	d.atEnd(func() error { return d.watching.Close(context.WithoutCancel(ctx)) })
	version, _, _ := strings.Cut(d.watching.PgConn().ParameterStatus("server_version"), " ")
	d.out.step("PostgreSQL %s on %s, fsync on, started in %.1f s", version, server.Addr(), time.Since(begun).Seconds())
	return nil
}

// stop lets the processes end as a rollout would, and fails when one of them does not end well.
func (d *demo) stop(ctx context.Context) error {
	begun := time.Now()
	for _, p := range d.processes {
		if err := p.terminate(); err != nil {
			return err
		}
	}
	for _, p := range d.processes {
		if err := p.awaitEnd(ctx); err != nil {
			return err
		}
	}
	d.out.step("both processes ended well on SIGTERM in %.1f s", time.Since(begun).Seconds())
	return nil
}
