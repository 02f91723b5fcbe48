package testkit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	startTimeout   = 60 * time.Second
	stopPatience   = 10 * time.Second
	startAttempts  = 5
	defaultMaxConn = 300
)

// PostgresOptions says how a server differs from the default, which is quick and forgets everything when the machine stops.
type PostgresOptions struct {
	// Durable turns fsync and full_page_writes on.
	Durable bool
	// MaxConnections is 300 when it is 0.
	MaxConnections int
	// Settings are further server settings, for example autovacuum.
	Settings map[string]string
}

// PostgresServer is a private PostgreSQL on a free port of 127.0.0.1, with trust authentication and the superuser "postgres".
// Its methods may be called from several goroutines.
type PostgresServer struct {
	options PostgresOptions
	bin     string
	account *syscall.Credential
	dir     *workDir

	mu    sync.Mutex
	port  int
	child *child
}

// NewPostgres starts a server that is closed at the end of the test.
func NewPostgres(tb testing.TB, options PostgresOptions) *PostgresServer {
	tb.Helper()
	server, err := StartPostgres(tb.Context(), options)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := server.Close(); err != nil {
			tb.Error(err)
		}
	})
	return server
}

// StartPostgres starts a new, empty server and returns when it answers. Close it: that stops it and removes its folder.
func StartPostgres(ctx context.Context, options PostgresOptions) (*PostgresServer, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	bin, err := postgresBinaries(ctx)
	if err != nil {
		return nil, err
	}
	account, err := unprivileged()
	if err != nil {
		return nil, err
	}
	dir, err := newWorkDir()
	if err != nil {
		return nil, err
	}
	s := &PostgresServer{options: options, bin: bin, account: account, dir: dir}
	if err := s.create(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *PostgresServer) create(ctx context.Context) error {
	if s.account != nil {
		if err := os.Chown(s.dir.path, int(s.account.Uid), int(s.account.Gid)); err != nil {
			return fmt.Errorf("give work folder away: %w", err)
		}
	}
	initdb := exec.CommandContext(ctx, filepath.Join(s.bin, "initdb"), "--pgdata", s.DataDir(), "--username=postgres",
		"--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions")
	s.asAccount(initdb)
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for attempt := 1; ; attempt++ {
		port, err := freePort()
		if err != nil {
			return err
		}
		s.port = port
		err = s.start(ctx)
		if err == nil {
			return nil
		}
		taken := strings.Contains(tail(s.logFile(), 40), "could not bind")
		if !taken || attempt == startAttempts {
			return err
		}
	}
}

// start runs the server on its port; s.mu is held.
func (s *PostgresServer) start(ctx context.Context) error {
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open server log: %w", err)
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(filepath.Join(s.bin, "postgres"), s.arguments()...)
	cmd.Stdout, cmd.Stderr = log, log
	s.asAccount(cmd)
	// SIGQUIT is the server's immediate shutdown: it takes its own children along.
	s.child, err = startChild(cmd, syscall.SIGQUIT)
	if err != nil {
		return err
	}
	if err := s.await(ctx); err != nil {
		return errors.Join(fmt.Errorf("start postgres: %w\n%s", err, tail(s.logFile(), 20)),
			s.child.stop(stopPatience, syscall.SIGQUIT))
	}
	return nil
}

func (s *PostgresServer) arguments() []string {
	settings := map[string]string{
		"listen_addresses":        "127.0.0.1",
		"port":                    strconv.Itoa(s.port),
		"unix_socket_directories": s.dir.path,
		"max_connections":         strconv.Itoa(defaultMaxConn),
		"timezone":                "UTC",
		"log_timezone":            "UTC",
	}
	if s.options.MaxConnections > 0 {
		settings["max_connections"] = strconv.Itoa(s.options.MaxConnections)
	}
	if !s.options.Durable {
		settings["fsync"] = "off"
		settings["full_page_writes"] = "off"
	}
	maps.Copy(settings, s.options.Settings)
	args := make([]string, 0, 2+2*len(settings))
	args = append(args, "-D", s.DataDir())
	for name, value := range settings {
		args = append(args, "-c", name+"="+value)
	}
	return args
}

// await returns when the server answers, and is the one that was started.
func (s *PostgresServer) await(ctx context.Context) error {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := s.ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-s.child.done:
			return fmt.Errorf("server ended: %v", s.child.cmd.ProcessState)
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-ticker.C:
		}
	}
}

func (s *PostgresServer) ask(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.url("postgres"))
	if err != nil {
		return fmt.Errorf("connect to server: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	var dir string
	if err := conn.QueryRow(ctx, "SHOW data_directory").Scan(&dir); err != nil {
		return fmt.Errorf("ask for data directory: %w", err)
	}
	if dir != s.DataDir() {
		return fmt.Errorf("port %d belongs to another server, of %s", s.port, dir)
	}
	return nil
}

// URL is the address of a database of this server, for its superuser. The port stays the same over restarts.
func (s *PostgresServer) URL(database string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.url(database)
}

func (s *PostgresServer) url(database string) string {
	u := url.URL{
		Scheme: "postgres", User: url.User("postgres"), Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)),
		Path: "/" + database, RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Addr is host:port, for a proxy in front of the server.
func (s *PostgresServer) Addr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))
}

// DataDir is the server's data directory.
func (s *PostgresServer) DataDir() string { return s.dir.join("data") }

func (s *PostgresServer) logFile() string { return s.dir.join("postgres.log") }

// Stop shuts the server down cleanly, ending all sessions, and keeps the data.
func (s *PostgresServer) Stop() error { return s.end(syscall.SIGINT, syscall.SIGQUIT) }

// StopImmediate stops the server as a crash would: what was not flushed is replayed from the log at the next start.
func (s *PostgresServer) StopImmediate() error { return s.end(syscall.SIGQUIT) }

func (s *PostgresServer) end(signals ...os.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.child == nil {
		return nil
	}
	return s.child.stop(stopPatience, signals...)
}

// Start runs a stopped server again, on the same port and data.
func (s *PostgresServer) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.child != nil && !s.child.exited() {
		return nil
	}
	return s.start(ctx)
}

// RestartImmediate is a crash and the recovery after it.
func (s *PostgresServer) RestartImmediate(ctx context.Context) error {
	if err := s.StopImmediate(); err != nil {
		return err
	}
	return s.Start(ctx)
}

// Close stops the server and removes its folder.
func (s *PostgresServer) Close() error {
	return errors.Join(s.Stop(), s.dir.close())
}
